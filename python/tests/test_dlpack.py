"""DLPack, with capsules made and read by hand: on the processor, and on a GPU, if only an emulated one."""

import ctypes
import gc

import numpy as np
import pytest

import varve as vv

from capsules import BFLOAT, BOOL, COMPLEX, FLOAT, INT, Producer, Unversioned, Versioned, opened
from processes import BUILD, run


# ---- what we give


def test_capsules_have_the_version_that_was_asked_for():
    t = vv.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).eval()
    for max_version, kind in [
        (None, Unversioned),
        ((0, 8), Unversioned),
        ((1, 0), Versioned),
        ((1, 3), Versioned),
        ((2, 0), Versioned),
    ]:
        capsule = t.__dlpack__(max_version=max_version)
        got = opened(capsule)
        assert type(got) is kind
        array = got.array
        assert (array.ndim, array.shape[:2], array.strides[:2]) == (2, [2, 3], [3, 1])
        assert (array.code, array.bits, array.lanes, array.byte_offset) == (FLOAT, 32, 1, 0)
        assert (array.device_type, array.device_id) == t.__dlpack_device__() == (1, 0)
        assert array.data == t.numpy().ctypes.data
        if kind is Versioned:
            assert (got.major, got.flags) == (1, 1)  # read-only


def test_copies_are_writable_and_others_are_not():
    t = vv.tensor([1.0, 2.0]).eval()
    copied = opened(capsule := t.__dlpack__(max_version=(1, 0), copy=True))
    assert copied.flags == 2 and copied.array.data != t.numpy().ctypes.data
    del capsule
    shared = t.__dlpack__(max_version=(1, 0), copy=False, dl_device=(1, 0))
    assert opened(shared).array.data == t.numpy().ctypes.data
    assert np.from_dlpack(t).ctypes.data == t.numpy().ctypes.data
    if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
        assert not np.from_dlpack(t).flags.writeable and np.from_dlpack(t, copy=True).flags.writeable
        assert np.from_dlpack(t, device="cpu").ctypes.data == t.numpy().ctypes.data


def test_what_cannot_be_given():
    t = vv.tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="stream"):
        t.__dlpack__(stream=1)
    with pytest.raises(BufferError, match="dl_device"):
        t.__dlpack__(dl_device=(8, 0))
    with pytest.raises(BufferError, match="copy=False"):
        t.__dlpack__(dl_device=(2, 0), copy=False)
    with pytest.raises(ValueError, match="cuda"):  # no such device here, or not this one
        t.__dlpack__(dl_device=(2, 77))
    with pytest.raises(ValueError, match="traced"):
        vv.compile(lambda x: np.from_dlpack(x + 1) * 1)(t)


@pytest.mark.parametrize("used", [False, True])
def test_capsules_hold_the_memory_and_let_it_go(used):
    producer = Producer((memory := np.arange(3, dtype="float32")).ctypes.data, (3,))
    t = vv.from_dlpack(producer)
    capsule = t.__dlpack__(max_version=(1, 0))
    del t
    gc.collect()
    assert producer.released == 0
    if used:  # as a consumer does: the capsule's name changes, and the deleter is his to call
        got = opened(capsule)
        ctypes.pythonapi.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
        ctypes.pythonapi.PyCapsule_SetName(capsule, b"used_dltensor_versioned")
        del capsule
        assert producer.released == 0
        got.deleter(ctypes.addressof(got))
    else:
        del capsule
    [None for _ in range(1000)]  # the interpreter gives it back between two of its instructions
    assert producer.released == 1
    assert memory.tolist() == [0, 1, 2]


def test_variables_lazy_scalars_and_empty_ones():
    assert np.from_dlpack(vv.Variable([1.0, 2.0])).tolist() == [1, 2]
    assert np.from_dlpack(vv.tensor([1.0]) + 1).tolist() == [2]
    assert np.from_dlpack(vv.tensor(3.0)).shape == ()
    assert np.from_dlpack(vv.zeros((0, 3))).shape == (0, 3)
    assert np.from_dlpack(vv.tensor([[1.0, 2.0], [3.0, 4.0]]).T).tolist() == [[1, 3], [2, 4]]
    assert np.from_dlpack(vv.tensor([True, False])).tolist() == [True, False]


# ---- what we take


def test_memory_of_others_is_shared_and_given_back_once():
    memory = np.arange(6, dtype="float32")
    for old in (False, True):
        producer = Producer(memory.ctypes.data, (2, 3), old=old)
        t = vv.from_dlpack(producer)
        assert t.numpy().ctypes.data == memory.ctypes.data and t.tolist() == memory.reshape(2, 3).tolist()
        assert producer.asked == ([{}] if old else [{"max_version": (1, 0)}])
        view = t[1:]
        assert view.tolist() == [[3, 4, 5]]
        del t
        gc.collect()
        assert producer.released == 0  # the view holds it
        del view
        gc.collect()
        assert producer.released == 1


def test_given_back_from_a_thread_that_has_no_interpreter():
    import threading

    memory = np.ones((64, 64), "float32")
    producers = [Producer(memory.ctypes.data, (64, 64)) for _ in range(40)]  # more than the interpreter's queue holds
    program = vv.compile(lambda x: (x @ x).sum())

    def work(mine):
        for producer in mine:
            assert program(vv.from_dlpack(producer)).item() == 64**3

    threads = [threading.Thread(target=work, args=(producers[i::4],)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    del thread, threads
    program(vv.zeros((64, 64)))  # a program keeps its last arguments until the next call
    last = Producer(memory.ctypes.data, (64, 64))
    vv.from_dlpack(last)
    gc.collect()
    assert [producer.released for producer in producers] == [1] * 40


@pytest.mark.parametrize(
    "make, wanted",
    [
        (lambda p: Producer(p, (2, 2), strides=(3, 1)), [[0, 1], [3, 4]]),
        (lambda p: Producer(p, (3, 2), strides=(1, 3)), [[0, 3], [1, 4], [2, 5]]),
        (lambda p: Producer(p, (2, 2), strides=(0, 1)), [[0, 1], [0, 1]]),
        (lambda p: Producer(p, (3,), strides=(-2,), offset=16), [4, 2, 0]),
        (lambda p: Producer(p + 2, (1,), offset=2), [1]),
        (lambda p: Producer(p, (2, 1, 3), strides=(3, 99, 1)), [[[0, 1, 2]], [[3, 4, 5]]]),
        (lambda p: Producer(p, (2,), offset=8), [2, 3]),
        (lambda p: Producer(p, (), offset=4), 1),
        (lambda p: Producer(p, (), strides=()), 0),
        (lambda p: Producer(p, (2,), device=(3, 0)), [0, 1]),
        (lambda p: Producer(None, (0, 3)), []),
        (lambda p: Producer(None, (3, 0), strides=(1, 1)), [[], [], []]),
    ],
)  # fmt: skip
def test_strides_offsets_and_shapes(make, wanted):
    memory = np.arange(6, dtype="float32")
    producer = make(memory.ctypes.data)
    assert vv.from_dlpack(producer).tolist() == wanted
    gc.collect()
    assert producer.released == 1


def test_copying_and_not():
    memory = np.arange(6, dtype="float32")
    flat, turned = Producer(memory.ctypes.data, (6,)), Producer(memory.ctypes.data, (3, 2), strides=(1, 3))
    assert vv.from_dlpack(flat, copy=True).numpy().ctypes.data != memory.ctypes.data
    with pytest.raises(BufferError, match="row-major.*contiguous"):
        vv.from_dlpack(turned, copy=False)
    with pytest.raises(BufferError, match="aligned"):
        vv.from_dlpack(Producer(memory.ctypes.data + 1, (2,)), copy=False)
    gc.collect()
    assert (flat.released, turned.released) == (1, 1)
    assert vv.asarray(Producer(memory.ctypes.data, (6,)), copy=False).numpy().ctypes.data == memory.ctypes.data
    assert vv.tensor(Producer(memory.ctypes.data, (6,))).numpy().ctypes.data != memory.ctypes.data
    assert (vv.ones((6,)) + Producer(memory.ctypes.data, (6,))).sum().item() == 21


@pytest.mark.parametrize(
    "options, text",
    [
        ({"lanes": 4}, "float32 × 4 lanes"), ({"code": COMPLEX, "bits": 64}, "complex64.*Convert"),
        ({"code": INT, "bits": 16}, "int16"),
        ({"code": FLOAT, "bits": 8}, "float8"), ({"code": 99}, "code 99"), ({"device": (8, 0)}, "device type 8.*processor"),
        ({"major": 2}, "DLPack 2.0"),
    ],
)  # fmt: skip
def test_what_is_refused_says_what_to_do(options, text):
    memory = np.arange(6, dtype="float32")
    producer = Producer(memory.ctypes.data, (1,), **options)
    with pytest.raises(BufferError, match=text):
        vv.from_dlpack(producer)
    gc.collect()
    assert producer.released == (0 if "major" in options or "device" in options else 1)  # those were never taken


def test_types_without_a_copy():
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for code, bits, dtype in [
        (BFLOAT, 16, ml_dtypes.bfloat16),
        (FLOAT, 16, "float16"),
        (BOOL, 8, "bool"),
        (INT, 8, "int8"),
        (INT, 64, "int64"),
    ]:
        memory = np.array([1, 0], dtype)
        t = vv.from_dlpack(Producer(memory.ctypes.data, (2,), code=code, bits=bits))
        assert t.numpy().dtype == memory.dtype and t.numpy().ctypes.data == memory.ctypes.data and t.tolist() == [1, 0]


def test_capsules_are_taken_once():
    capsule = vv.tensor([1.0]).__dlpack__()
    assert vv.from_dlpack(capsule).tolist() == [1]
    with pytest.raises(ValueError, match="used before"):
        vv.from_dlpack(capsule)
    with pytest.raises(TypeError, match="__dlpack__"):
        vv.from_dlpack([1.0])

    class Broken:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, **options):
            raise RuntimeError("not today")

    with pytest.raises(RuntimeError, match="not today"):
        vv.from_dlpack(Broken())


# ---- on a GPU, if only an emulated one

ON_A_GPU = """
    import ctypes, gc
    import numpy as np
    import varve as vv
    from capsules import Producer, opened

    vv.set_device("cuda")
    vv.ones((2,)).sum().item()  # the driver is loaded, and its context current
    cuda = ctypes.CDLL("libcuda.so.1")

    def there(values):
        address = ctypes.c_uint64()
        assert cuda.cuMemAlloc_v2(ctypes.byref(address), values.nbytes) == 0
        assert cuda.cuMemcpyHtoD_v2(address, values.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(values.nbytes)) == 0
        return address.value

    def back(address, count):
        values = np.zeros(count, "float32")
        here = values.ctypes.data_as(ctypes.c_void_p)
        assert cuda.cuMemcpyDtoH_v2(here, ctypes.c_uint64(address), ctypes.c_size_t(values.nbytes)) == 0
        return values

    # In: no copy, our stream is named to the producer, and the memory is given back once.
    values = np.arange(3000, dtype="float32")
    address = there(values)
    producer = Producer(address, (3000,), device=(2, 0))
    t = vv.from_dlpack(producer)
    assert producer.asked[0]["max_version"] == (1, 0) and producer.asked[0]["stream"] > 2
    assert t.__dlpack_device__() == (2, 0) and vv.device_of(t) == "cuda"
    assert opened(again := t.__dlpack__(stream=1, max_version=(1, 0))).array.data == address
    assert (t * 2).sum().item() == 2 * values.sum()
    assert t.tolist() == values.tolist() and vv.device_of(t) == "cuda"
    del again, t
    gc.collect()
    assert producer.released == 1

    # Out: results are read where they lie, on any stream, and stay while they are held.
    program = vv.compile(lambda x: x + 1)
    for stream in (None, -1, 1, 2):
        y = program(vv.tensor(values))
        capsule = y.__dlpack__(stream=stream, max_version=(1, 0))
        array = opened(capsule).array
        assert (array.device_type, array.device_id) == (2, 0)
        for i in range(5):
            program(vv.tensor(values + i))
        assert (back(array.data, 3000) == values + 1).all()
        del capsule
    small = (vv.tensor([1.0, 2.0]) * 2).eval()
    assert (back(opened(c := small.__dlpack__(max_version=(1, 0))).array.data, 2) == [2, 4]).all()
    copied = opened(d := y.__dlpack__(max_version=(1, 0), copy=True))
    assert copied.flags == 2 and (back(copied.array.data, 3000) == values + 1).all()
    assert copied.array.data != opened(e := y.__dlpack__(max_version=(1, 0))).array.data

    # From one memory to the other.
    here = opened(f := y.__dlpack__(dl_device=(1, 0), max_version=(1, 0))).array
    assert here.device_type == 1
    assert np.from_dlpack(y, device="cpu").tolist() == (values + 1).tolist()
    moved = opened(g := vv.tensor([1.0, 2.0]).__dlpack__(dl_device=(2, 0), max_version=(1, 0))).array
    assert moved.device_type == 2 and (back(moved.data, 2) == [1, 2]).all()
    assert vv.from_dlpack(y).tolist() == y.tolist() and vv.device_of(vv.from_dlpack(y)) == "cuda"
    assert vv.device_of(vv.from_dlpack(y, device="cpu")) == "cpu" and vv.from_dlpack(y, device="cpu").tolist() == y.tolist()

    # Refused, with a reason.
    def refuses(error, text, f):
        try:
            f()
        except error as e:
            assert text in str(e), e
        else:
            raise AssertionError(text)

    refuses(BufferError, "copy=False", lambda: y.__dlpack__(dl_device=(1, 0), copy=False))
    refuses(ValueError, "stream", lambda: y.__dlpack__(stream=0))
    here = Producer(values.ctypes.data, (3,), device=(2, 0))
    refuses(ValueError, "not memory that the CUDA driver knows", lambda: vv.from_dlpack(here))
    refuses(BufferError, "contiguous", lambda: vv.from_dlpack(Producer(address, (3, 2), strides=(1, 3), device=(2, 0))))
    refuses(ValueError, "cuda:5", lambda: vv.from_dlpack(Producer(address, (3,), device=(2, 5))))
    print("all of it")
"""


def test_arrays_of_a_gpu():
    library, emulator = BUILD / "lib/libvarve_cuda.so", BUILD / "cuda_emulator"
    if not library.exists() or not (emulator / "libcuda.so.1").exists():
        pytest.skip(
            "the CUDA backend and the emulated GPU are not built (varve_cuda, varve_emulated_cuda, varve_emulated_nvrtc)"
        )
    out = run(
        ON_A_GPU, LD_LIBRARY_PATH=emulator, VARVE_CUDA_LIBRARY=library, VARVE_WITHOUT="cublas,cudnn",
        VARVE_CUDA_CACHE=emulator / "cache", VARVE_EMULATOR_CACHE=emulator / "kernels",
    )  # fmt: skip
    assert out.strip() == "all of it"
