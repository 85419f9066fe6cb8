"""Gradients and programs of Python functions."""

import threading

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
