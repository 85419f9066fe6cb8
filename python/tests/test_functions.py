"""Gradients and programs of Python functions."""

import dataclasses
import gc
import threading
import weakref
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest

import varve as vv


def test_gradients_of_any_order_and_of_nests():
    f = lambda x: (x**3).sum()  # noqa: E731
    a = vv.tensor([1.0, 2.0])
    assert vv.grad(f)(a).tolist() == [3.0, 12.0]
    assert vv.grad(lambda x: vv.grad(f)(x).sum())(a).tolist() == [6.0, 12.0]
    value, slopes = vv.value_and_grad(lambda p, k: (p["w"] * p["b"][0] * k).sum())({"w": a, "b": [a + 1]}, 2.0)
    assert value.item() == 16.0
    assert slopes["w"].tolist() == [4.0, 6.0] and slopes["b"][0].tolist() == [2.0, 4.0]


def test_gradients_by_variables():
    w, unused = vv.Variable([2.0, 3.0], "w"), vv.Variable([1.0])
    loss, (dw, zero) = vv.value_and_grad(lambda: (w * w).sum(), [w, unused])
    assert loss.item() == 13.0 and dw.tolist() == [4.0, 6.0] and zero.tolist() == [0.0]


def test_a_computed_tensor_is_refused():
    x = vv.tensor([1.0])
    y = (x * x).sum()
    assert vv.gradients(y, [x])[0].tolist() == [2.0]
    y.item()
    with pytest.raises(ValueError, match="computed already"):
        vv.gradients(y, [x])


def test_vjp_checkpoint_custom():
    y, pull = vv.vjp(lambda a, b: (a * b, a + b), vv.tensor([2.0]), vv.tensor([5.0]))
    assert [t.item() for t in y] == [10.0, 7.0]
    da, db = pull(vv.tensor([1.0]), vv.tensor([10.0]))
    assert (da.item(), db.item()) == (15.0, 12.0)
    calls = []

    def block(x):
        calls.append(1)
        return vv.tanh(vv.exp(x))

    g = vv.grad(lambda x: vv.checkpoint(block)(x).sum())(vv.tensor([0.5]))
    np.testing.assert_allclose(g.item(), vv.grad(lambda x: vv.tanh(vv.exp(x)).sum())(vv.tensor([0.5])).item())
    assert len(calls) == 1
    doubled = vv.custom_vjp(lambda x: x * 1, lambda inputs, outputs, dys: [dys[0] * 2])
    assert vv.grad(lambda x: doubled(x).sum())(vv.tensor([1.0])).tolist() == [2.0]


def test_compile_takes_nests_numbers_and_keywords():
    traces = []

    @vv.compile
    def f(batch, scale, *, power=1, names=("a",)):
        traces.append(1)
        return {name: (batch[name] * scale) ** power for name in names}

    x = vv.tensor([1.0, 2.0])
    assert f({"a": x}, 2.0)["a"].tolist() == [2.0, 4.0]
    assert f({"a": x}, 3.0)["a"].tolist() == [3.0, 6.0]  # a float is read at the call
    assert len(traces) == 1
    assert f({"a": x}, 3.0, power=2)["a"].tolist() == [9.0, 36.0]  # an integer is part of the program
    assert f({"a": x, "b": x}, 1.0, names=("b",))["b"].tolist() == [1.0, 2.0]
    assert len(traces) == 3 and f.programs() == 3
    assert f.peak_bytes({"a": x}, 2.0) > 0
    assert "multiply" in f.text({"a": x}, 2.0) or "·" in f.text({"a": x}, 2.0)
    assert f(np_batch := {"a": np.ones(2, "float32")}, 2.0)["a"].tolist() == [2.0, 2.0], np_batch
    with pytest.raises(TypeError, match="cannot be an argument"):
        f({"a": x}, 1.0, names=set())


def test_the_structure_of_results_may_follow_the_shapes():
    rows = vv.compile(lambda x: {"rows": [x[i] for i in range(len(x))], "count": len(x)})
    for count in (3, 2, 3, 2):
        result = rows(vv.ones((count, 2)))
        assert len(result["rows"]) == count and result["count"] == count


def test_reading_inside_a_program_says_so():
    with pytest.raises(ValueError, match="traced"):
        vv.compile(lambda x: x * float(x.sum()))(vv.tensor([1.0]))


def test_state_in_programs():
    v = vv.Variable([0.0])

    @vv.compile
    def step(x):
        v.assign(v + x)
        return v.value() * 10

    assert step(vv.tensor([1.0])).item() == 10.0
    assert step(vv.tensor([2.0])).item() == 30.0
    assert v.tolist() == [3.0]


def test_an_error_inside_a_function_comes_back_as_it_was():
    class Own(Exception):
        pass

    def fail(x):
        raise Own("mine")

    for wrapped in (vv.grad(fail), vv.compile(fail), vv.checkpoint(fail)):
        with pytest.raises(Own, match="mine"):
            wrapped(vv.tensor([1.0]))


def test_threads_compile_and_differentiate_at_once():
    wrong = []

    def work(k):
        f = vv.custom_vjp(lambda x: x * k, lambda inputs, outputs, dys: [dys[0] * k])
        g = vv.compile(lambda x: vv.grad(lambda y: f(y).sum())(x))
        for _ in range(30):
            if g(vv.tensor([1.0])).item() != k or vv.grad(lambda y: f(y).sum())(vv.tensor([1.0])).item() != k:
                wrong.append(k)

    threads = [threading.Thread(target=work, args=(float(k),)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "the threads wait for each other"
    assert not wrong


class Point(NamedTuple):
    x: vv.Tensor
    y: vv.Tensor


@dataclasses.dataclass(frozen=True)
class State:
    w: vv.Tensor
    name: str = "w"


def test_nests_of_named_tuples_dataclasses_and_ordered_dicts():
    p = Point(vv.tensor([1.0]), vv.tensor([2.0]))
    slope = vv.grad(lambda q: (q.x * q.y).sum())(p)
    assert isinstance(slope, Point) and slope.x.item() == 2.0 and slope.y.item() == 1.0

    @vv.compile
    def step(state, table):
        return dataclasses.replace(state, w=state.w * 2), OrderedDict((k, v + 1) for k, v in table.items())

    state, table = step(State(vv.tensor([3.0])), OrderedDict(b=vv.tensor([1.0]), a=vv.tensor([2.0])))
    assert isinstance(state, State) and state.w.item() == 6.0 and state.name == "w"
    assert list(table) == ["b", "a"] and isinstance(table, OrderedDict) and table["a"].item() == 3.0
    assert step.programs() == 1


def test_argnums_and_aux():
    f = lambda a, b, k=1.0: (a * b * k).sum()  # noqa: E731
    a, b = vv.tensor([2.0]), vv.tensor([5.0])
    assert vv.grad(f, argnums=1)(a, b, k=3.0).item() == 6.0
    da, db = vv.grad(f, argnums=(0, 1))(a, b)
    assert (da.item(), db.item()) == (5.0, 2.0)
    (db2,) = vv.grad(f, argnums=(-1,))(a, b)
    assert db2.item() == 2.0
    (value, aux), slope = vv.value_and_grad(lambda x: ((x * x).sum(), {"double": x * 2, "note": "seen"}), has_aux=True)(a)
    assert value.item() == 4.0 and slope.item() == 4.0 and aux["double"].item() == 4.0 and aux["note"] == "seen"
    slope, aux = vv.grad(lambda x: ((x * x).sum(), x + 1), has_aux=True)(a)
    assert slope.item() == 4.0 and aux.item() == 3.0
    w = vv.Variable([3.0])
    (loss, aux), (dw,) = vv.value_and_grad(lambda: ((w * w).sum(), "aux"), [w], has_aux=True)
    assert loss.item() == 9.0 and dw.item() == 6.0 and aux == "aux"
    compiled = vv.compile(lambda x: vv.grad(lambda y: ((y * y).sum(), y * 3), has_aux=True)(x))
    slope, aux = compiled(a)
    assert slope.item() == 4.0 and aux.item() == 6.0


def test_compiled_methods_belong_to_their_instances():
    class Counter:
        def __init__(self, by):
            self.by = by

        @vv.compile
        def step(self, x):
            return x + self.by

    a, b = Counter(1.0), Counter(10.0)
    x = vv.tensor([0.0])
    assert a.step(x).item() == 1.0 and b.step(x).item() == 10.0 and a.step(x).item() == 1.0
    assert a.step.programs() == 1 and "add" in a.step.text(x)
    kept = Counter(5.0).step
    assert kept(x).item() == 5.0
    gone = weakref.ref(b)
    del b
    gc.collect()
    assert gone() is None and len(Counter.__dict__["step"]._bound) == 2


def test_compiled_functions_are_collected():
    class Model:
        pass

    gc.collect()
    alive = []
    for _ in range(50):
        model = Model()
        model.w = vv.tensor([2.0])
        model.step = vv.compile(lambda x, model=model: x * model.w)
        assert model.step(vv.tensor([3.0])).item() == 6.0
        alive.append(weakref.ref(model))
    del model
    gc.collect()
    assert sum(each() is not None for each in alive) == 0


def test_the_number_of_structures_is_bounded():
    f = vv.compile(lambda x, k: x * k)
    for k in range(50):
        assert f(vv.tensor([1.0]), k).item() == k
    assert f.programs() <= 16
    shapes = vv.compile(lambda x: x + 1)
    for n in range(1, 200):
        shapes(vv.ones(n))
    assert shapes.programs() < 199


def test_the_same_exception_comes_back_with_its_traceback():
    class Own(Exception):
        pass

    mine = Own("mine")

    def fail(x):
        raise mine

    def rule(inputs, outputs, dys):
        raise mine

    cases = [
        lambda x: vv.grad(fail)(x), lambda x: vv.compile(fail)(x), lambda x: vv.checkpoint(fail)(x), lambda x: vv.vjp(fail, x),
        lambda x: vv.compile(lambda y: vv.grad(lambda z: vv.checkpoint(fail)(z).sum())(y))(x),
        lambda x: vv.grad(lambda y: vv.custom_vjp(lambda z: z * 1, rule)(y).sum())(x),
        lambda x: vv.scan(lambda c, y: fail(y), x, x), lambda x: vv.cond(True, lambda: fail(x), lambda: x),
        lambda x: vv.while_loop(lambda y: y.sum() > 0, fail, x), lambda x: vv.while_loop(fail, lambda y: y, x),
        lambda x: vv.define("failing", shape=fail, decompose=lambda y: y)(x),
        lambda x: vv.define("failing2", shape=lambda y: y, kernel=fail)(x).numpy(),
        lambda x: vv.elementwise(fail),
    ]  # fmt: skip
    for case in cases:
        with pytest.raises(Own) as raised:
            case(vv.tensor([1.0]))
        assert raised.value is mine
        assert any(each.name in ("fail", "rule") for each in raised.traceback)


def test_reading_inside_a_program_is_an_error_at_that_line():
    def body(x):
        y = x * 2
        return y * float(y.sum())  # this line

    with pytest.raises(ValueError) as raised:
        vv.compile(body)(vv.tensor([1.0]))
    assert any("this line" in str(each.statement) for each in raised.traceback)


def test_scan():
    xs = {"a": vv.tensor([1.0, 2.0, 3.0]), "b": vv.tensor([1.0, 1.0, 2.0])}
    body = lambda c, x: ({"s": c["s"] + x["a"] * x["b"]}, [c["s"], x["a"]])  # noqa: E731
    last, (before, again) = vv.scan(body, {"s": vv.tensor(0.0)}, xs)
    assert last["s"].item() == 9.0 and before.tolist() == [0.0, 1.0, 3.0] and again.tolist() == [1.0, 2.0, 3.0]
    last, _ = vv.scan(lambda c, x: (c * 2, None), vv.tensor(1.0), length=5)
    assert last.item() == 32.0
    back, ys = vv.scan(lambda c, x: (c + x, c), vv.tensor(0.0), xs["a"], reverse=True)
    assert back.item() == 6.0 and ys.tolist() == [5.0, 3.0, 0.0]
    g = vv.grad(lambda w: vv.scan(lambda c, x: (c * w + x, None), vv.tensor(0.0), xs["a"])[0])(vv.tensor(2.0))
    assert g.item() == 2 * 1 * 2 + 2  # d(1·w² + 2·w + 3)/dw
    with pytest.raises(TypeError, match="expected \\(carry, y\\)"):
        vv.scan(lambda c, x: c, vv.tensor(0.0), xs["a"])


def test_cond():
    x = vv.tensor([1.0, 2.0])
    choose = lambda p, x: vv.cond(p, lambda d: {"y": d["x"] * 2, "n": [vv.tensor(1)]}, lambda d: {"y": x * x, "n": [vv.tensor(2)]}, {"x": x})  # noqa: E731
    for f in (choose, vv.compile(choose)):
        assert f(vv.tensor(True), x)["y"].tolist() == [2.0, 4.0]
        off = f(vv.tensor(False), x)
        assert off["y"].tolist() == [1.0, 4.0] and off["n"][0].item() == 2
    slope = vv.compile(lambda p, x: vv.grad(lambda t: choose(p, t)["y"].sum())(x))
    assert slope(vv.tensor(True), x).tolist() == [2.0, 2.0] and slope(vv.tensor(False), x).tolist() == [2.0, 4.0]
    assert vv.cond(x.sum() > 0, vv.exp, lambda t: t, vv.tensor(0.0)).item() == 1.0
    with pytest.raises(ValueError, match="then gives f32 \\[2\\]; otherwise gives f32 \\[\\]"):
        vv.cond(True, lambda: x, lambda: x.sum())
    with pytest.raises(TypeError, match="different structures"):
        vv.cond(True, lambda: x, lambda: [x])
    with pytest.raises(ValueError, match="one truth value"):
        vv.cond(x > 0, lambda: x, lambda: x)
    v = vv.Variable(x, "v")
    with pytest.raises(ValueError, match="variable 'v' is assigned inside a function of cond"):
        vv.cond(True, lambda: (v.assign(x + 1), x)[1], lambda: x)
    with pytest.raises(ValueError, match="read inside a function of cond"):
        vv.cond(True, lambda: x * float((x * 2).sum()), lambda: x)


def test_while_loop():
    def collatz(n):
        step = lambda c: {"n": vv.cond(c["n"] % 2 == 0, lambda: c["n"] // 2, lambda: 3 * c["n"] + 1), "k": c["k"] + 1}  # noqa: E731
        return vv.while_loop(lambda c: c["n"] > 1, step, {"n": n, "k": vv.tensor(0)}, max_steps=120)["k"]

    program = vv.compile(collatz)
    assert [program(vv.tensor(n)).item() for n in (1, 6, 27)] == [0, 8, 111]
    assert collatz(vv.tensor(27)).item() == 111
    with pytest.raises(ValueError, match="after 120 steps, the max_steps"):
        program(vv.tensor(97 * 2**30)).item()
    root = lambda a, **how: vv.while_loop(lambda x: (x * x - a).abs() > 1e-4, lambda x: (x + a / x) / 2, vv.tensor(1.0), **how)  # noqa: E731
    for how in ({"max_steps": 30}, {"recompute": True}):
        assert abs(vv.grad(lambda a: root(a, **how))(vv.tensor(4.0)).item() - 0.25) < 1e-3
    with pytest.raises(ValueError, match="Set max_steps"):
        vv.grad(root)(vv.tensor(4.0))
    with pytest.raises(TypeError, match="another structure"):
        vv.while_loop(lambda c: c[0] > 1, lambda c: c[0], [vv.tensor(3.0)])


def test_own_elementwise_operators():
    snake = vv.elementwise(lambda x: x + vv.square(vv.sin(x)), name="snake")
    x = np.linspace(-2, 2, 7, dtype="float32")
    np.testing.assert_allclose(snake(x).numpy(), x + np.sin(x) ** 2, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(vv.grad(lambda t: snake(t).sum())(x).numpy(), 1 + 2 * np.sin(x) * np.cos(x), rtol=1e-5, atol=1e-6)
    both = vv.compile(lambda t: snake(t) * 2 + 1)
    np.testing.assert_allclose(both(x).numpy(), (x + np.sin(x) ** 2) * 2 + 1, rtol=1e-6)
    text = both.text(vv.tensor(x))
    assert text.count("snake") >= 1
    smooth = vv.elementwise(lambda x, y: vv.where((x > y) & (x != 0), x % 2 + abs(-y), vv.maximum(x, 1.0) ** y), name="odd")
    np.testing.assert_allclose(smooth(3.0, 2.0).item(), 3.0)
    np.testing.assert_allclose(smooth(2.0, 3.0).item(), 8.0)
    straight = vv.elementwise(lambda x: vv.round(x), name="straight", derivative=lambda x, y: 1.0)
    assert vv.grad(lambda t: straight(t).sum())(vv.tensor([0.3, 0.7])).tolist() == [1.0, 1.0]
    positive = vv.elementwise(lambda x: x > 0, name="positive", result="predicate", differentiable=False)
    assert positive(vv.tensor([-1.0, 1.0])).tolist() == [False, True]
    inner = vv.elementwise(lambda x: snake(x) * 2, name="outer")  # an operator of your own inside another
    np.testing.assert_allclose(inner(1.0).item(), 2 * (1 + np.sin(1.0) ** 2), rtol=1e-6)


def test_own_operators_with_rules_and_kernels():
    calls = []

    def kernel(x, *, power):
        calls.append(x.shape)
        return (x**power).astype("float32")

    power = vv.define("own_power", shape=lambda x, power: x, kernel=kernel, arity=1,
                      gradient=lambda inputs, outputs, dys, power: [dys[0] * power * inputs[0] ** (power - 1)])  # fmt: skip
    x = vv.tensor([1.0, 2.0, 3.0])
    assert power(x, power=3).tolist() == [1.0, 8.0, 27.0] and calls == [(3,)]
    assert vv.grad(lambda t: power(t, power=3).sum())(x).tolist() == [3.0, 12.0, 27.0]
    compiled = vv.compile(lambda t: power(t + 1, power=2) * 2)
    assert compiled(x).tolist() == [8.0, 18.0, 32.0]
    halves = vv.define("halves", shape=lambda x: [vv.TensorType(x.dtype, (x.shape[0] // 2,))] * 2,
                       decompose=lambda x: vv.split(x, 2))  # fmt: skip
    first, second = halves(vv.arange(4))
    assert first.tolist() == [0, 1] and second.tolist() == [2, 3]
    wrong = vv.define("wrong_kernel", shape=lambda x: x, kernel=lambda x: x[:1])
    with pytest.raises(ValueError, match="expected f32 \\[3\\]"):
        wrong(x).numpy()
    kept = []
    keeper = vv.define("keeper", shape=lambda x: x, kernel=lambda x: kept.append(x) or x + 1)
    for i in range(5):
        keeper(vv.full((1000,), float(i))).eval()
    assert [array[0] for array in kept] == [0.0, 1.0, 2.0, 3.0, 4.0]  # arrays of its own: nobody writes over them


def test_threads_with_python_kernels_and_rules():
    wrong, done = [], []
    double = vv.define("double_it", shape=lambda x: x, kernel=lambda x: x * 2, gradient=lambda i, o, d: [d[0] * 2])
    shared = vv.compile(lambda x: vv.grad(lambda y: double(y * y).sum())(x))

    def work(k):
        own = vv.compile(lambda x: double(x) + vv.scan(lambda c, t: (c + t, c), vv.tensor(0.0), x)[0])
        for i in range(20):
            if shared(vv.tensor([float(k)])).item() != 4.0 * k or own(vv.tensor([1.0, 2.0])).tolist() != [5.0, 7.0]:
                wrong.append(k)
        done.append(k)

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(done) == 4, "the threads wait for each other"
    assert not wrong


def test_scopes_costs_and_profiles():
    def body(x):
        with vv.Scope("outer"), vv.Scope("inner"):
            return vv.exp(x) @ x

    f = vv.compile(body)
    profile = f.profile(vv.ones((16, 16)), repeats=3)
    assert any(row.origin == "outer.inner" for row in profile.rows)
    assert profile.total_ms > 0 and "matmul" in str(profile) and profile.chrome_trace().startswith("{")
    assert profile._repr_html_().startswith("<pre>")
    assert vv.cost(vv.ones((4, 8)).eval() @ vv.ones((8, 2)).eval()).flops == 2 * 4 * 8 * 2
    assert f.peak_bytes(vv.ones((16, 16))) >= 16 * 16 * 4
    scope = vv.Scope("again")
    with scope, pytest.raises(ValueError, match="open already"):
        with scope:
            pass
    assert vv.Scope.path() == ""
