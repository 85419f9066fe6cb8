"""vmap, jvp, Jacobians, Hessians and their products, of Python functions of nests."""

import numpy as np
import pytest

import varve as vv

ROWS = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]


def test_vmap_of_nests_and_axes():
    x = vv.tensor(ROWS)
    out = vv.vmap(lambda p, k: {"s": p["a"].sum() * k, "pair": (p["a"], p["b"])}, in_axes=(0, None))({"a": x, "b": x + 1}, 2.0)
    assert out["s"].tolist() == [6.0, 14.0, 22.0] and out["pair"][1].shape == (3, 2)
    swapped, total = vv.vmap(lambda row: (row * 2, row.sum()), in_axes=1, out_axes=(1, 0))(x)
    np.testing.assert_array_equal(swapped.numpy(), np.array(ROWS) * 2)
    assert total.tolist() == [9.0, 12.0]
    assert vv.vmap(lambda row, *, by: row * by)(x, by=vv.tensor([1.0, 10.0, 100.0])).tolist()[2] == [500.0, 600.0]
    assert vv.vmap(lambda row, *, by: row * by)(x, by=2.0).tolist()[0] == [2.0, 4.0]


def test_gradients_of_each_example():
    x, w = vv.tensor(ROWS), vv.tensor([2.0, -1.0])
    slopes = vv.vmap(vv.grad(lambda w, row: (w * row).sum() ** 2), in_axes=(None, 0))(w, x)
    want = [vv.grad(lambda w: (w * vv.tensor(row)).sum() ** 2)(w).tolist() for row in ROWS]  # noqa: B023
    assert slopes.tolist() == want
    v = vv.Variable([2.0, -1.0])
    losses, (each,) = vv.vmap(lambda row: vv.value_and_grad(lambda: (v * row).sum(), [v]))(x)
    assert losses.tolist() == [0.0, 2.0, 4.0] and each.tolist() == ROWS
    step = vv.compile(lambda w, x: vv.vmap(vv.grad(lambda w, row: (w * row).sum() ** 2), in_axes=(None, 0))(w, x))
    assert step(w, x).tolist() == want
    model = vv.nn.Sequential(vv.nn.Dense(4, activation="tanh"), vv.nn.Dense(1))
    model.build((2,))
    parameters = list(model.parameters())
    per_example = vv.vmap(lambda row: vv.value_and_grad(lambda: model(row[None]).sum(), parameters)[1])(x)
    _, summed = vv.value_and_grad(lambda: model(x).sum(), parameters)
    for one, together in zip(per_example, summed):
        assert one.shape == (3, *together.shape)
        np.testing.assert_allclose(one.numpy().sum(0), together.numpy(), rtol=1e-5, atol=1e-6)


def test_compiled_functions_are_mapped():
    assert vv.vmap(vv.compile(lambda row: (row * row).sum()))(vv.tensor(ROWS)).tolist() == [5.0, 25.0, 61.0]


def test_random_numbers_of_each_example():
    noisy = lambda row: row + vv.uniform(4, seed=3)  # noqa: E731
    own = vv.vmap(noisy)(vv.zeros((2, 4))).numpy()
    same = vv.vmap(noisy, randomness="same")(vv.zeros((2, 4))).numpy()
    assert (own[0] != own[1]).any() and (same[0] == same[1]).all()


def test_derivatives_of_nests():
    y, dy = vv.jvp(lambda p: {"y": p["a"] * p["b"]}, ({"a": 2.0, "b": 5.0},), ({"a": 1.0, "b": 10.0},))
    assert y["y"].item() == 10.0 and dy["y"].item() == 25.0
    _, moved = vv.jvp(lambda a, b: (a * b, vv.argmax(a)), (vv.ones(3), 5.0), (vv.ones(3), None))
    assert moved[0].tolist() == [5.0, 5.0, 5.0] and moved[1] is None
    rows = vv.jacobian(lambda p, k: (p["a"] * k, p["b"].sum()))({"a": vv.ones(2), "b": vv.ones(3)}, 3.0)
    assert rows[0]["a"].tolist() == [[3.0, 0.0], [0.0, 3.0]] and rows[1]["b"].tolist() == [1.0, 1.0, 1.0]
    for mode in ("reverse", "forward"):
        assert vv.jacobian(lambda x: x * x, mode=mode)(vv.tensor([1.0, 2.0])).tolist() == [[2.0, 0.0], [0.0, 4.0]]
    both = vv.jacobian(lambda a, b: a * b, argnums=(0, 1))(2.0, 5.0)
    assert [part.item() for part in both] == [5.0, 2.0]
    h = vv.hessian(lambda p: (p["a"] * p["b"]).sum())({"a": vv.ones(2), "b": vv.ones(2)})
    assert h["a"]["b"].tolist() == [[1.0, 0.0], [0.0, 1.0]] and h["a"]["a"].tolist() == [[0.0, 0.0], [0.0, 0.0]]
    f = lambda x: (x**3).sum()  # noqa: E731
    product = vv.compile(lambda x, v: vv.hvp(f, x, v))
    assert product(vv.tensor([1.0, 2.0]), vv.tensor([1.0, -1.0])).tolist() == [6.0, -12.0]


def test_operators_of_ones_own_are_mapped():
    x = vv.tensor(ROWS)
    last = vv.define("last", shape=lambda t: vv.TensorType(t.dtype, t.shape[:-1]), kernel=lambda a: a[..., -1], batching="leading")
    assert vv.vmap(last)(x).tolist() == [2.0, 4.0, 6.0]
    norm = vv.define("norm_of", shape=lambda t: vv.TensorType(t.dtype, ()), kernel=lambda a: np.sum(a * a, dtype=a.dtype),
                     batching=lambda inputs, batched, size: (inputs[0] * inputs[0]).sum(axis=1))  # fmt: skip
    assert vv.vmap(norm)(x).tolist() == [5.0, 25.0, 61.0]
    bare = vv.define("bare", shape=lambda t: t, kernel=lambda a: a)
    with pytest.raises(ValueError, match="bare cannot be called for a batch of examples"):
        vv.vmap(bare)(x)


def test_wrong_calls_are_named():
    x = vv.tensor(ROWS)
    with pytest.raises(ValueError, match="argument 0 has 3 examples"):
        vv.vmap(lambda a, b: a)(x, vv.ones(2))
    with pytest.raises(ValueError, match="in_axes names 1 axes for 2"):
        vv.vmap(lambda a, b: a, in_axes=(0,))(x, x)
    with pytest.raises(ValueError, match="randomness"):
        vv.vmap(lambda a: a, randomness="some")
    with pytest.raises(ValueError, match="out_axes is 3"):
        vv.vmap(lambda a: a, out_axes=3)(x)
    with pytest.raises(TypeError, match="in_axes is 'first'"):
        vv.vmap(lambda a: a, in_axes="first")(x)
    with pytest.raises(TypeError, match="primals must be a tuple"):
        vv.jvp(lambda a: a, x, x)
    with pytest.raises(TypeError, match="another structure"):
        vv.jvp(lambda a: a, (x,), ({"a": x},))
    with pytest.raises(ValueError, match="mode"):
        vv.jacobian(lambda a: a, mode="sideways")
    with pytest.raises(ValueError, match="scalar"):
        vv.hessian(lambda a: a)(x)
    with pytest.raises(ValueError, match="while the function was mapped"):
        vv.vmap(lambda a: a.numpy())(x)
