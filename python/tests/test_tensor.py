"""Tensors as Python uses arrays: every result against NumPy's."""

import copy
import pickle

import numpy as np
import pytest

import varve as vv


def same(tensor, array):
    np.testing.assert_array_equal(np.asarray(tensor), array)


def test_creation_and_types():
    assert vv.tensor([1.0, 2.0]).dtype == vv.f32
    assert vv.tensor([1, 2]).dtype == vv.i64
    assert vv.tensor(np.ones(3)).dtype == vv.f64
    assert vv.tensor([True]).dtype == vv.bool_
    assert vv.zeros((2, 3), dtype="float16").dtype == vv.f16
    assert vv.full((2,), 7).tolist() == [7, 7]
    assert vv.arange(2, 8, 3).tolist() == [2, 5]
    assert vv.tensor(np.array([1, 2], "uint16")).dtype == vv.i32
    assert repr(vv.tensor([1.0])) == "tensor([1.], f32)"
    assert str(vv.bf16) == "bf16"
    with pytest.raises(ValueError, match="complex"):
        vv.tensor(np.ones(2, "complex64"))


def test_operators_take_numbers_and_arrays():
    x = np.array([[1.0, -2.0], [3.0, 4.0]], "float32")
    t = vv.tensor(x)
    for ours, theirs in [
        (t + 1, x + 1), (2 - t, 2 - x), (t * x, x * x), (t / 2, x / 2), (-t, -x), (abs(t), abs(x)), (t**2, x**2),
        (t @ t, x @ x), (t < 2, x < 2), (t == x, x == x), (t != x, x != x), (x * t, x * x), (1 / t, 1 / x),
        (t // 2, x // 2), (t % 2, x % 2), ((t > 0) & (t < 3.5), (x > 0) & (x < 3.5)), (~(t > 0), ~(x > 0)),
    ]:  # fmt: skip
        np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
    total = t
    total += 1
    same(total, x + 1)
    same(t, x)


INDICES = [
    np.s_[0], np.s_[-1], np.s_[1:3], np.s_[::-1], np.s_[::2, 1], np.s_[..., 0], np.s_[:, None, 1:], np.s_[None],
    np.s_[2, 1, 3], np.s_[-1:0:-2], np.s_[[0, 2]], np.s_[:, [1, -1]], np.s_[[0, 2], [1, 0]], np.s_[..., [0, 1]], np.s_[5:2],
    np.s_[np.array([[0, 1], [2, 0]])], np.s_[1, ..., ::3], np.s_[np.int64(1)],
]  # fmt: skip


@pytest.mark.parametrize("key", INDICES, ids=str)
def test_indexing_is_numpys(key):
    x = np.arange(3 * 4 * 5, dtype="float32").reshape(3, 4, 5)
    same(vv.tensor(x)[key], x[key])


def test_masks_are_read_at_the_call():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    t = vv.tensor(x)
    same(t[t > 4], x[x > 4])
    same(t[np.array([True, False, True])], x[[True, False, True]])


def test_indices_that_cannot_be():
    t = vv.zeros((2, 3))
    with pytest.raises(IndexError, match="out of range"):
        t[2]
    with pytest.raises(IndexError, match="too many"):
        t[0, 0, 0]
    with pytest.raises(TypeError, match="scatter_add"):
        t[0] = 1
    with pytest.raises(TypeError, match="index"):
        t["a"]


def test_methods_len_iteration_truth():
    x = np.arange(6, dtype="float32").reshape(2, 3)
    t = vv.tensor(x)
    assert len(t) == 2 and t.shape == (2, 3) and t.ndim == 2 and t.size == 6
    same(t.sum(axis=1), x.sum(axis=1))
    same(t.max(axis=0, keepdims=True), x.max(axis=0, keepdims=True))
    same(t.T, x.T)
    same(t.reshape(3, -1), x.reshape(3, -1))
    assert [row.tolist() for row in t] == x.tolist()
    assert bool(vv.tensor(1.0)) and int(vv.tensor(3)) == 3 and float(vv.tensor(0.5)) == 0.5
    with pytest.raises(ValueError, match="any"):
        bool(t)
    with pytest.raises(TypeError):
        len(vv.tensor(1.0))


def test_memory_is_shared_both_ways():
    x = np.arange(4, dtype="float32")
    shared = vv.asarray(x)
    assert np.asarray(shared).ctypes.data == x.ctypes.data
    out = (shared + 1).numpy()
    assert not out.flags.writeable
    again = np.from_dlpack(shared)
    assert again.ctypes.data == x.ctypes.data
    with pytest.raises(ValueError):
        out[0] = 1


def test_bfloat16():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    t = vv.tensor([1.0, 2.5], dtype=vv.bf16)
    assert np.asarray(t).dtype == ml_dtypes.bfloat16
    assert t.tolist() == [1.0, 2.5]
    assert vv.tensor(np.array([1.5], ml_dtypes.bfloat16)).dtype == vv.bf16


def test_pickle_and_copy():
    for t in [vv.tensor([[1.0, 2.0]]), vv.tensor([1, 2]), vv.tensor([True]), vv.tensor(2.0)]:
        back = pickle.loads(pickle.dumps(t))
        assert back.dtype == t.dtype and back.shape == t.shape and back.tolist() == t.tolist()
        assert copy.deepcopy(t).tolist() == t.tolist()


def test_errors_are_python_exceptions():
    with pytest.raises(ValueError, match="inner sizes differ"):
        vv.matmul(vv.zeros((2, 3)), vv.zeros((2, 3)))
    with pytest.raises(vv.Error, match="out of range"):
        vv.gather(vv.zeros((3,)), vv.tensor([5])).numpy()
    with pytest.raises(MemoryError):
        vv.zeros((2**40, 2**10)).numpy()
    with pytest.raises(TypeError):
        vv.tensor([1.0]) + "a"


def test_html():
    assert "2 × 2 · f32" in vv.zeros((2, 2))._repr_html_()
