"""Tensors as Python uses arrays: every result against NumPy's."""

import copy
import doctest
import operator
import pickle
import random

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


def random_part(rng, size):
    """An index for an axis of this size, as NumPy and as we take it."""
    kind = rng.random()
    if kind < 0.2 and size:
        return rng.randrange(-size, size)
    if kind < 0.5:
        ends = [None, *range(-size - 2, size + 3)]
        return slice(rng.choice(ends), rng.choice(ends), rng.choice([None, 1, 2, 3, -1, -2]))
    if kind < 0.65 or size == 0:
        return slice(None)
    shape = rng.choice([(), (1,), (2,), (3, 2), (1, 2)])
    positions = np.array([rng.randrange(-size, size) for _ in range(int(np.prod(shape)))], "int64").reshape(shape)
    return rng.choice([positions, positions.tolist(), vv.tensor(positions)])


def random_mask(rng, shape):
    mask = np.array([rng.random() < 0.5 for _ in range(int(np.prod(shape)))], bool).reshape(shape)
    return rng.choice([mask, vv.tensor(mask)] + ([mask.tolist()] if mask.size else []))


def random_key(rng, shape):
    count = rng.randint(0, len(shape))
    dots = rng.randint(0, count) if rng.random() < 0.3 else None
    axes = list(range(count)) if dots is None else [*range(dots), *range(len(shape) - (count - dots), len(shape))]
    key, used = [], 0
    while used < len(axes):
        if used == dots:
            key.append(Ellipsis)
            dots = None
        if rng.random() < 0.12:
            key.append(None)
        if rng.random() < 0.04:
            key.append(rng.choice([True, False, np.bool_(True)]))
        if rng.random() < 0.12:
            wide = 2 if used + 1 < len(axes) and axes[used + 1] == axes[used] + 1 and rng.random() < 0.5 else 1
            wide = 1 if dots == used + 1 else wide
            key.append(random_mask(rng, [shape[axis] for axis in axes[used : used + wide]]))
            used += wide
        else:
            key.append(random_part(rng, shape[axes[used]]))
            used += 1
    if dots is not None:
        key.append(Ellipsis)
    return key[0] if len(key) == 1 and rng.random() < 0.5 else tuple(key)


def numpy_key(key):
    parts = key if isinstance(key, tuple) else (key,)
    parts = tuple(part.numpy() if isinstance(part, vv.Tensor) else part for part in parts)
    return parts if isinstance(key, tuple) else parts[0]


@pytest.mark.parametrize("seed", range(4))
def test_random_indices_are_numpys(seed):
    rng = random.Random(seed)
    refused = 0
    for _ in range(500):
        sizes = [0, 1, 2, 3, 4] if rng.random() < 0.1 else [1, 2, 3, 4]
        shape = tuple(rng.choice(sizes) for _ in range(rng.randint(0, 4)))
        x = np.arange(int(np.prod(shape)), dtype="float32").reshape(shape)
        key = random_key(rng, shape)
        try:
            wanted = x[numpy_key(key)]
        except IndexError:
            refused += 1
            with pytest.raises(IndexError):
                vv.tensor(x)[key]
            continue
        got = np.asarray(vv.tensor(x)[key])
        assert got.shape == wanted.shape, (shape, key)
        np.testing.assert_array_equal(got, wanted, err_msg=str((shape, key)))
    assert refused < 100  # shapes that do not broadcast


def test_indexing_in_a_program_and_its_gradient():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    rows = vv.compile(lambda t, at: t[at, ::-1][..., None])
    same(rows(vv.tensor(x), vv.tensor([2, -3])), x[[2, -3], ::-1][..., None])
    slope = vv.grad(lambda t: (t[[0, 0, 2], [1, 1, 3]] * 2).sum())(vv.tensor(x))
    wanted = np.zeros((3, 4), "float32")
    wanted[0, 1], wanted[2, 3] = 4, 2
    same(slope, wanted)


def test_masks_are_read_at_the_call():
    x = np.arange(12, dtype="float32").reshape(3, 4)
    t = vv.tensor(x)
    same(t[t > 4], x[x > 4])
    same(t[np.array([True, False, True])], x[[True, False, True]])
    with pytest.raises(ValueError, match="traced"):
        vv.compile(lambda t: t[t > 4])(t)


@pytest.mark.parametrize(
    "key, error, text",
    [
        (2, IndexError, "index 2 is out of range for axis 0 of size 2"),
        ((0, -4), IndexError, "index -4 is out of range for axis 1 of size 3"),
        ((0, 0, 0), IndexError, "too many"),
        (([0, 5],), IndexError, "index 5 is out of range"),
        ((..., ...), IndexError, "one ellipsis"),
        (np.ones((3, 3), bool), IndexError, "axis 0 has 2 elements, the index 3"),
        (([0, 1], [0, 1, 2]), IndexError, "broadcast"),
        ("a", TypeError, "cannot be a str"),
        (1.5, TypeError, "cannot be a float"),
        ({}, TypeError, "cannot be a dict"),
    ],
)
def test_indices_that_cannot_be(key, error, text):
    with pytest.raises(error, match=text):
        vv.zeros((2, 3))[key]


def test_positions_of_tensors_are_checked_when_computed():
    t = vv.zeros((2, 3))
    with pytest.raises(IndexError, match="integers or bools"):
        t[vv.tensor([0.5])]
    for key in [vv.tensor([2]), (vv.tensor([0]), vv.tensor([3])), (vv.tensor([-3]), vv.tensor([5]))]:
        with pytest.raises(vv.Error, match="out of range"):
            t[key].numpy()


def test_elements_are_not_assigned():
    t = vv.zeros((2, 3))
    with pytest.raises(TypeError, match="where.*scatter_add.*concat"):
        t[0] = 1
    with pytest.raises(TypeError, match="where"):
        vv.Variable([1.0])[0] = 1


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


def test_methods_are_numpys():
    x = np.random.default_rng(0).normal(size=(2, 3, 4)).astype("float32")
    t = vv.tensor(x)
    for name in ("sum", "mean", "max", "min", "prod", "std", "var"):
        for axis in (None, 0, (0, 2)):
            for keepdims in (False, True):
                wanted = getattr(x, name)(axis=axis, keepdims=keepdims)
                got = np.asarray(getattr(t, name)(axis=axis, keepdims=keepdims))
                assert got.shape == wanted.shape
                np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    for name in ("argmax", "argmin", "cumsum"):
        for axis in (None, 0, -1):
            np.testing.assert_allclose(np.asarray(getattr(t, name)(axis)), getattr(x, name)(axis), rtol=1e-5, atol=1e-6)
    assert t.T.shape == x.T.shape and t.mT.shape == (2, 4, 3) and t.transpose().shape == x.transpose().shape
    assert t.flatten().shape == t.ravel().shape == (24,) and t.nbytes == x.nbytes
    same(np.sum(t, axis=0) - t.sum(axis=0), np.zeros((3, 4)))  # NumPy's functions call the methods
    assert isinstance(np.exp(t), np.ndarray)


LEFT = [
    np.float32(2),
    np.float64(2),
    np.int64(2),
    np.float16(2),
    np.array(2.0, "float32"),
    np.array([2.0, 3.0], "float32"),
    2,
    2.0,
    [2.0, 3.0],
]
OPERATORS = [
    operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow,
    operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne,
]  # fmt: skip


@pytest.mark.parametrize("left", LEFT, ids=lambda left: f"{type(left).__name__}-{left}")
def test_numbers_and_arrays_on_either_side(left):
    x = np.array([[1.5, 2.0], [3.0, 4.0]], "float32")
    t = vv.tensor(x)
    for op in OPERATORS:
        for ours, theirs in [
            (op(left, t), op(np.asarray(left, "float32"), x)),
            (op(t, left), op(x, np.asarray(left, "float32"))),
        ]:
            assert isinstance(ours, vv.Tensor), op
            assert ours.dtype in (vv.f32, vv.bool_), op
            np.testing.assert_allclose(np.asarray(ours), theirs, rtol=1e-6)
    for ours, theirs in zip(divmod(left, t), divmod(np.asarray(left, "float32"), x)):
        same(ours, theirs)
    for ours, theirs in zip(divmod(t, left), divmod(x, np.asarray(left, "float32"))):
        same(ours, theirs)


def test_matmul_and_logic_with_arrays():
    x = np.array([[1.5, 2.0], [3.0, 4.0]], "float32")
    t = vv.tensor(x)
    for ours in (x @ t, t @ x, t @ x.tolist()):
        assert isinstance(ours, vv.Tensor)
        same(ours, x @ x)
    bits = np.array([True, False])
    for op in (operator.and_, operator.or_, operator.xor):
        same(op(vv.tensor(bits), bits[::-1]), op(bits, bits[::-1]))
        same(op(bits[::-1], vv.tensor(bits)), op(bits, bits[::-1]))
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"):
        same(getattr(operator, name)(t, x), getattr(operator, name)(x.copy(), x))
    same(t, x)
    for other in (object(), {}, "a", None):
        with pytest.raises(TypeError, match="unsupported operand"):
            t + other
    assert (t == None) is False and (t != "a") is True  # noqa: E711
    assert (t + 2**70).dtype == vv.f32
    with pytest.raises(ValueError, match="64 bits"):
        vv.tensor(2**64)


def test_what_python_asks_of_numbers_and_sequences():
    t = vv.tensor([[1.0, -2.0], [3.0, 4.0]])
    assert 3 in t and 9 not in t and 1 not in vv.zeros((0,))
    assert f"{vv.tensor(2.5):.3f}" == "2.500" and f"{vv.tensor([1, 2])}" == "[1 2]"
    with pytest.raises(TypeError, match="one number"):
        f"{t:.2f}"
    assert ["a", "b"][vv.tensor(1)] == "b" and list(range(vv.tensor(2))) == [0, 1]
    with pytest.raises(TypeError, match="index"):
        ["a"][vv.tensor(0.0)]
    assert len({t: 1, vv.tensor(1.0): 2}) == 2 and {t: 5}[t] == 5
    assert round(vv.tensor([1.26]), 1).tolist() == pytest.approx([1.3]) and complex(vv.tensor(2.0)) == 2
    assert [float(row) for row in reversed(vv.tensor([1.0, 2.0]))] == [2, 1]
    a, b = vv.tensor([1.0, 2.0])
    assert max(a, b).item() == 2 and sum(vv.tensor([1.0, 2.0])).item() == 3
    zero = vv.tensor(3.0)
    assert zero.shape == () and zero[()].item() == zero[...].item() == 3 and zero[None].shape == (1,) and zero[True].shape == (1,)
    for wrong in (lambda: zero[0], lambda: iter(zero), lambda: len(zero), lambda: bool(vv.zeros((0,)))):
        with pytest.raises((IndexError, TypeError, ValueError)):
            wrong()
    with pytest.raises(AttributeError):
        t.shape = (4,)


def test_variables_compute_like_tensors():
    v = vv.Variable([1.0, 2.0], name="v")
    for ours, theirs in [(v + 1, [2, 3]), (np.float32(2) * v, [2, 4]), (1 - v, [0, -1]), (v[::-1], [2, 1]), (v.sum()[None], [3])]:
        assert np.asarray(ours).tolist() == theirs
    assert len(v) == 2 and 2 in v and [float(x) for x in v] == [1, 2]
    back = pickle.loads(pickle.dumps(v))
    assert back.name == "v" and back.tolist() == [1, 2] and not back.same(v) and not copy.deepcopy(v).same(v)


def test_double_precision_is_kept_where_asked_for():
    assert vv.tensor([0.1], dtype="f64").tolist() == [0.1]
    assert vv.tensor(0.1, dtype=np.float64).item() == 0.1
    assert vv.asarray([0.1]).dtype == vv.f32 and vv.asarray([0.1], dtype="f64").tolist() == [0.1]


ARRAYS = {
    "transposed": np.arange(6, dtype="float32").reshape(2, 3).T, "reversed": np.arange(6.0)[::-1], "stepped": np.arange(6.0)[::2],
    "big-endian": np.array([1.5, 2.5], ">f4"),
    "unaligned": np.frombuffer(b"x" + np.arange(3, dtype="float32").tobytes(), "float32", offset=1),
    "broadcast": np.broadcast_to(np.float32(3), (2, 2)), "int16": np.array([-7], "int16"), "uint16": np.array([65535], "uint16"),
    "uint32": np.array([2**32 - 1], "uint32"), "uint64": np.array([7], "uint64"),
}  # fmt: skip


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays_that_must_be_copied(name):
    x = ARRAYS[name]
    same(vv.asarray(x), x)
    same(vv.tensor(x), x)
    with pytest.raises(ValueError, match="copy=False"):
        vv.asarray(x, copy=False)


def test_arrays_that_are_shared():
    frozen = np.arange(3, dtype="float32")
    frozen.flags.writeable = False
    for x in (frozen, np.zeros((0, 3)), np.array(2.0), np.arange(6.0).reshape(2, 3)[1:], np.array([True]), np.ones(2, "float16")):
        t = vv.asarray(x, copy=False)
        same(t, x)
        assert t.numpy().ctypes.data == x.ctypes.data or x.size == 0
        assert vv.asarray(x, copy=True).numpy().ctypes.data != x.ctypes.data or x.size == 0
    assert vv.asarray(bytearray(b"ab")).tolist() == [97, 98]


@pytest.mark.parametrize(
    "x, text",
    [
        (np.ones(2, "complex64"), "complex64.*astype"), (np.array([1, None]), "object"), (np.array(["a"]), "str"),
        (np.array(["2020-01-01"], "datetime64[D]"), "datetime64"), (np.zeros(2, [("a", "f4")]), "void"),
        (np.ones(1, "longdouble"), "float128"), (np.array([2**63], "uint64"), "int64 cannot hold"),
        (np.ma.masked_array([1, 2], [0, 1]), "filled"), (None, "object"), (np.datetime64("2020-01-01"), "datetime64"),
        (np.timedelta64(1, "s"), "timedelta64"), (np.complex64(1), "complex64"), (np.bytes_(b"ab"), "bytes"),
        (np.str_("a"), "str"),
    ],
)  # fmt: skip
def test_arrays_that_cannot_be_tensors(x, text):
    for take in (vv.asarray, vv.tensor):
        with pytest.raises(ValueError, match=text):
            take(x)


def test_numpy_takes_them_by_its_rules():
    t = vv.tensor([1.0, 2.0])
    assert not np.asarray(t).flags.writeable and np.array(t).flags.writeable
    assert (
        np.asarray(t, dtype="float64").dtype == "float64"
        and np.asarray(t, dtype="float32").ctypes.data == np.asarray(t).ctypes.data
    )
    if np.lib.NumpyVersion(np.__version__) >= "2.0.0":
        assert np.asarray(t, copy=False).ctypes.data == np.asarray(t).ctypes.data
        with pytest.raises(ValueError, match="copy"):
            np.asarray(t, dtype="float64", copy=False)
    assert np.asarray(vv.Variable([1.0])).tolist() == [1]


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


def test_bfloat16_and_half_without_copies():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy has no bfloat16 of its own")
    for dtype in (ml_dtypes.bfloat16, np.float16):
        x = np.array([[1.0, 2.5]], dtype)
        t = vv.asarray(x, copy=False)
        assert np.asarray(t).dtype == dtype and np.asarray(t).ctypes.data == x.ctypes.data
        assert t.tolist() == [[1.0, 2.5]] and str(t.dtype) in ("bf16", "f16")
        assert np.asarray(t, dtype="float32").tolist() == [[1.0, 2.5]]
    t = vv.tensor([1.0, 2.5], dtype=vv.bf16)
    assert np.asarray(t).dtype == ml_dtypes.bfloat16
    assert vv.tensor(np.array([1.5], ml_dtypes.bfloat16)).dtype == vv.bf16


def test_bfloat16_without_the_package_that_numpy_needs(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "ml_dtypes", None)
    t = vv.tensor([1.5, 2.0], dtype="bf16")
    with pytest.raises(ImportError, match="ml_dtypes"):
        t.numpy()
    assert t.tolist() == [1.5, 2.0] and (t + 1).sum().item() == 5.5
    assert pickle.loads(pickle.dumps(t)).tolist() == [1.5, 2.0]
    with pytest.raises(ValueError, match="3 bytes do not fill bf16"):
        rebuild, (dtype, shape, _) = t.__reduce__()
        rebuild(dtype, shape, b"abc")


TYPES = ["f64", "f32", "f16", "bf16", "i64", "i32", "i8", "u8", "bool"]


@pytest.mark.parametrize("dtype", TYPES)
def test_pickle_and_copy(dtype):
    for value in ([[1.0, 0.0]], 1.0, []):
        t = vv.tensor(value).astype(dtype)
        for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
            back = pickle.loads(pickle.dumps(t, protocol))
            assert back.dtype == t.dtype and back.shape == t.shape and back.tolist() == t.tolist()
        assert copy.copy(t) is t and copy.deepcopy(t) is t


def test_errors_are_python_exceptions():
    with pytest.raises(ValueError, match="inner sizes differ"):
        vv.matmul(vv.zeros((2, 3)), vv.zeros((2, 3)))
    with pytest.raises(vv.Error, match="out of range"):
        vv.gather(vv.zeros((3,)), vv.tensor([5])).numpy()
    with pytest.raises(MemoryError):
        vv.zeros((2**40, 2**10)).numpy()
    with pytest.raises(TypeError):
        vv.tensor([1.0]) + "a"


def test_types_are_numpys_too():
    for name in TYPES:
        ours = vv.zeros((1,), dtype=name).dtype
        assert np.dtype(ours) == np.zeros(1, ours).dtype == vv.zeros((1,), dtype=ours).numpy().dtype
        assert vv.zeros((1,), dtype=np.dtype(ours)).dtype == ours
    with pytest.raises(TypeError, match="varve.tensor"):
        vv.Tensor([1.0])


def test_html():
    html = vv.tensor([[1.5, 2.0], [3.0, -1.0]])._repr_html_()
    assert "Tensor · 2 × 2 · f32" in html and html.count("<tr>") == 2 and ">1.5</td>" in html
    long = vv.arange(1000).reshape(10, 100)._repr_html_()
    assert "10 × 100 · i64" in long and "⋯" in long and len(long) < 12000 and ">999</td>" in long
    assert "scalar · f32" in vv.tensor(1.0)._repr_html_() and "0 × 3" in vv.zeros((0, 3))._repr_html_()
    assert "<pre>" in vv.zeros((2, 2, 2))._repr_html_() and "bf16" in vv.tensor([1.0], dtype="bf16")._repr_html_()
    assert "Variable &lt;w&gt; · 1 · f32" in vv.Variable([1.0], name="<w>")._repr_html_()
    shown = []
    vv.compile(lambda x: (shown.append(x._repr_html_()), x + 1)[1])(vv.zeros((2,)))
    assert "no value yet" in shown[0]


def test_everything_public_has_an_example_that_runs():
    checked = 0
    names = ["DType", "tensor", "asarray", "from_dlpack", "arange", "save", "load", "load_metadata", "device", "set_device",
             "device_of",
             "synchronize", "threads", "set_threads", "deterministic", "set_deterministic", "tracing"]  # fmt: skip
    members = [
        (f"{cls.__name__}.{name}", getattr(cls, name)) for cls in (vv.Tensor, vv.Variable) for name in vars(cls) if name[0] != "_"
    ]
    runner = doctest.DocTestRunner()
    for name, thing in (
        [(name, getattr(vv, name)) for name in names] + [("Tensor", vv.Tensor), ("Variable", vv.Variable)] + members
    ):
        examples = doctest.DocTestParser().get_doctest(thing.__doc__ or "", {}, name, None, None)
        assert examples.examples, f"{name} has no example"
        runner.run(examples)
        checked += 1
    assert runner.summarize().failed == 0 and checked > 100
