"""Modules: attributes, trees, state, hooks, copies, pickles, threads and memory."""

import copy
import gc
import pickle
import subprocess
import sys
import threading
import weakref

import numpy as np
import pytest

import varve as vv
from varve import nn, zoo


class Block(nn.Module):
    """Importable, so that it can be pickled."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Dense(width, activation="relu"), nn.Dense(width)
        self.scale = nn.Parameter(vv.ones(width))
        self.register_buffer("offset", vv.zeros(width))
        self.note = {"width": width}

    def forward(self, x, train=False):
        return self.second(self.first(x, train), train) * self.scale + self.offset


class Lazy(nn.Module):
    def __init__(self):
        super().__init__(learns_size=True)

    def forward(self, x):
        return x @ self.parameter("weight", (x.shape[-1], 3), init=lambda shape, fans, seed: np.full(shape, 0.5))


def built(*layers, sample=4):
    model = nn.Sequential(*layers)
    model.build(sample)
    return model


# ---- attributes


def test_attributes_come_and_go():
    block = Block(3)
    block(vv.ones((2, 3)))
    assert [name for name, _ in block.named_parameters()] == ["scale", "first.weight", "first.bias", "second.weight", "second.bias"]
    assert [name for name, _ in block.named_buffers()] == ["offset"] and block.parameter_count() == 2 * 12 + 3
    block.unfreeze()
    assert not block.variable("offset").trainable
    del block.scale
    assert "scale" not in dict(block.named_parameters()) and not hasattr(block, "scale")
    block.second = nn.Dense(3, bias=False)
    assert [name for name, _ in block.named_children()] == ["first", "second"]
    block.second = None
    assert block.children() == [block.first]
    block.second = nn.Parameter((2, 2))
    assert "second" in dict(block.named_parameters())
    with pytest.raises(ValueError, match="itself"):
        block.me = block


def test_lists_and_dicts_register_themselves():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = [nn.Dense(4) for _ in range(2)]
            self.heads = {"a": nn.Dense(2), "b": nn.Dense(2)}
            self.weights = [nn.Parameter(vv.ones(2)), nn.Parameter(vv.ones(2))]

        def forward(self, x):
            for block in self.blocks:
                x = block(x)
            return self.heads["a"](x) * self.weights[0] + self.heads["b"](x) * self.weights[1]

    net = Net()
    net.build(3)
    names = [name for name, _ in net.named_parameters()]
    assert {"blocks.1.weight", "heads.b.bias", "weights.0"} <= set(names) and len(names) == 10
    assert isinstance(net.blocks, nn.ModuleList) and len(net.modules()) == 1 + 3 + 4
    net.blocks[1] = nn.Dense(4, bias=False)
    net(vv.ones((1, 3)))
    assert "blocks.1.bias" not in dict(net.named_parameters())
    del net.blocks[0]
    assert len(net.blocks) == 1 and [name for name, _ in net.blocks.named_children()] == ["0"]
    del net.heads["b"]
    assert list(net.heads) == ["a"]


def test_mistakes_are_named():
    class Early(nn.Module):
        def __init__(self):
            self.layer = nn.Dense(2)

    with pytest.raises(AttributeError, match=r"super\(\).__init__\(\)"):
        Early()

    class Nothing(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Nothing has no forward"):
        Nothing()(vv.ones(2))

    class Wrong(nn.Module):
        def forward(self, x):
            return x.numpy()

    with pytest.raises(TypeError, match="Wrong.forward returned a ndarray"):
        Wrong()(vv.ones(2))
    with pytest.raises(TypeError, match="expected a layer or a function"):
        nn.Sequential(3)
    with pytest.raises(ValueError, match="^nn.Conv2d: unknown key 'kernal'. Did you mean 'kernel'"):
        nn.Conv2d(4, kernal=3)
    with pytest.raises(ValueError, match="^nn.Dense: needs 'out'"):
        nn.Dense()
    with pytest.raises(ValueError, match="no parameters yet"):
        nn.Sequential(nn.Dense(3)).parameters()
    with pytest.raises(TypeError, match="MultiHeadAttention"):
        nn.attend(nn.Dense(2), vv.ones((1, 2, 2)), vv.ones((1, 2, 2)))
    with pytest.raises(ValueError, match="Did you mean 'multiply'"):
        nn.Branches(nn.Dense(2), join="multiplied")


def test_options_of_layers_may_be_functions_and_arrays():
    def bump(x):
        return vv.exp(-x * x)

    model = built(nn.Dense(3, activation=bump, weight_init=np.ones((4, 3)), bias_init="ones"))
    assert np.allclose(model(vv.ones((1, 4))).numpy(), np.exp(-25.0))
    sized = built(nn.Dense(np.int64(3), weight_init=lambda shape, fans, seed: np.full(shape, fans[0])))
    assert sized.state_dict()["0.weight"].numpy().max() == 4.0
    assert built(nn.Dense(2, weight_init={"constant": 0.25})).state_dict()["0.weight"].tolist() == [[0.25, 0.25]] * 4
    one, two = built(nn.Dense(64, activation=vv.relu)), built(nn.Dense(64, activation="relu"))
    assert np.array_equal(one.state_dict()["0.weight"].numpy(), two.state_dict()["0.weight"].numpy())  # the same start
    with pytest.raises(ValueError, match="(?s)initialiser.*shape"):
        built(nn.Dense(2, weight_init=lambda shape, fans, seed: np.zeros(7)))
    with pytest.raises(ZeroDivisionError):
        built(nn.Dense(2, weight_init=lambda shape, fans, seed: 1 / 0))


def test_layers_that_learn_their_size():
    model = nn.Sequential(Lazy(), Lazy())
    assert not model.built
    model.build(4)
    assert model(vv.ones((1, 4))).tolist() == [[3.0, 3.0, 3.0]] and model.parameter_count() == 4 * 3 + 3 * 3
    with pytest.raises(ValueError, match="shape"):
        model(vv.ones((1, 5)))


# ---- the tree


def test_trees():
    shared = nn.Dense(4)
    model = nn.Sequential(shared, nn.Residual(nn.Sequential(shared, nn.Dense(4))), tail=Block(4))
    model.build(4)
    assert [name for name, _ in model.named_children()] == ["0", "1", "tail"]
    assert model[0] is shared and model["tail"].first.kind() == "dense" and len(model[:2]) == 2
    paths = [path for path, _ in model.named_modules()]
    assert paths == ["", "0", "1", "1.body", "1.body.1", "tail", "tail.first", "tail.second"]
    assert len(model.parameters()) == 2 + 2 + 5  # the shared one once
    assert model.parameter_count() == 20 * 4 + 4
    model.freeze("tail.*")
    assert len(model.parameters()) == 4
    model.unfreeze("tail.scale")
    assert len(model.parameters()) == 5
    seen = []
    model.apply(lambda module: seen.append(module.kind()))
    assert seen.count("dense") == 4
    assert [row.path for row in model.summary().rows][:3] == ["0", "1", "1.body"] and "dense" in str(model.summary())
    assert "parameters" in repr(model) and "<table>" in model._repr_html_() and "not built" in nn.Dense(3)._repr_html_()


def test_tied_weights_and_attention():
    words = nn.Embedding(20, 4)
    model = nn.Sequential(words, nn.TransformerBlock(4, heads=2), nn.TiedDense(words))
    model.build(5, dtype="i32")
    assert model(vv.zeros((1, 5), vv.i32)).shape == (1, 5, 20)
    copied = copy.deepcopy(model)
    assert copied.parameter_count() == model.parameter_count()


# ---- state


def test_state_of_numpy_torch_and_layouts(tmp_path):
    model, other = built(nn.Dense(3), nn.BatchNorm(), nn.Dropout(0.5)), built(nn.Dense(3), nn.BatchNorm(), nn.Dropout(0.5))
    assert set(model.state_dict()) == {"0.weight", "0.bias", "1.weight", "1.bias", "1.running_mean", "1.running_var"}
    other.load_state_dict({name: value.numpy() for name, value in model.state_dict(layout="pytorch").items()}, layout="pytorch")
    x = vv.normal((5, 4))
    assert np.array_equal(model(x).numpy(), other(x).numpy())
    with pytest.raises(ValueError, match="(?s)state_dict.*missing.*nearest.*strict=False"):
        other.load_state_dict({"0.weights": np.zeros((4, 3))})
    with pytest.raises(ValueError, match='(?s)PyTorch\'s layout.*layout="pytorch"'):
        other.load_state_dict(model.state_dict(layout="pytorch"))
    left = other.load_state_dict({"0.bias": np.ones(3), "what": np.ones(1)}, strict=False)
    assert left.unexpected == ["what"] and "0.weight" in left.missing and other.state_dict()["0.bias"].tolist() == [1.0] * 3
    with pytest.raises(ValueError, match="'0.bias' is no tensor but a object"):
        other.load_state_dict({"0.bias": object()})
    with pytest.raises(ValueError, match="'varve' or 'pytorch'"):
        other.state_dict(layout="keras")
    model.save(tmp_path / "half.safetensors", dtype="bf16", layout="pytorch", metadata={"who": "test"})
    other.load(tmp_path / "half.safetensors", layout="pytorch")
    assert np.allclose(model.state_dict()["0.weight"].numpy(), other.state_dict()["0.weight"].numpy(), rtol=1e-2)


def test_state_of_torch():
    torch = pytest.importorskip("torch", reason="make test-neighbours installs it")
    theirs = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.BatchNorm1d(3))
    ours = built(nn.Dense(3), nn.BatchNorm())
    ours.load_state_dict(theirs.state_dict(), layout="pytorch")
    x = torch.randn(5, 4)
    assert np.allclose(ours(x).numpy(), theirs.eval()(x).detach().numpy(), atol=1e-5)
    theirs.load_state_dict({name: torch.tensor(np.asarray(v)) for name, v in ours.state_dict(layout="pytorch").items()}, strict=False)


# ---- hooks


def test_hooks_see_and_replace():
    layer = nn.Dense(3, weight_init="ones", bias=False)
    model = nn.Sequential(layer, nn.Dense(2))
    model.build(4)
    seen = []
    hook = layer.register_forward_hook(lambda module, x, y: seen.append((module is layer, x.shape, y.shape)))
    model(vv.ones((5, 4)))
    assert seen == [(True, (5, 4), (5, 3))]
    hook.remove()
    with layer.register_forward_hook(lambda module, x, y: y * 0):
        assert np.array_equal(model(vv.ones((1, 4))).numpy(), model[1](vv.zeros((1, 3))).numpy())
    model(vv.ones((5, 4)))
    assert len(seen) == 1
    layer.register_forward_hook(lambda module, x, y: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model(vv.ones((1, 4)))


def test_hooks_are_recorded_in_compiled_functions():
    layer = nn.Dense(3, weight_init="ones", bias=False)
    layer.build(2)
    layer.register_forward_hook(lambda module, x, y: y + 1)
    assert vv.compile(lambda x: layer(x))(vv.ones((1, 2))).tolist() == [[3.0, 3.0, 3.0]]


# ---- copies and pickles


def models():
    yield built(nn.Dense(3, activation="relu"), nn.BatchNorm(), nn.Dropout(0.3), nn.Dense(2))
    yield built(Block(4), Lazy(), nn.Lambda(vv.tanh), nn.Residual(nn.Dense(3), activation="relu"), nn.Branches(nn.Dense(2), nn.Dense(2)))
    yield nn.network("input = [4]\n[[layer]]\ndense = 3\n[[layer]]\ndense = 2\n")
    small = zoo.lenet5()
    small.build((28, 28, 1))
    yield small


@pytest.mark.parametrize("copies", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
@pytest.mark.parametrize("number", range(4))
def test_copies_are_equal_and_apart(copies, number):
    model = list(models())[number]
    if model.built:
        model.freeze("*bias")
    again = copies(model)
    assert type(again) is type(model) and again.built == model.built
    if not model.built:
        model.build(4), again.build(4)
        return
    shape = (2,) + model.input[0]
    x = vv.normal(shape)
    assert np.array_equal(model(x).numpy(), again(x).numpy())
    assert [name for name, _ in again.named_parameters()] == [name for name, _ in model.named_parameters()]
    assert [v.name for v in again.parameters()] == [v.name for v in model.parameters()]
    first = model.parameters()[0]
    first.assign(first.value() + 1)
    assert not np.array_equal(model(x).numpy(), again(x).numpy())
    assert again.summary().parameters == model.summary().parameters


def test_shared_layers_stay_shared_in_copies():
    shared = nn.Dense(4)
    again = copy.deepcopy(built(shared, Block(4), shared))
    assert again[0] is again[2] and len(again.parameters()) == 7
    block = Block(4)
    block.alias = block.first
    block.found = {"at": block, "depth": 0}  # a cycle
    twice = pickle.loads(pickle.dumps(block))
    assert twice.alias is twice.first and twice.found["at"] is twice and twice.note == {"width": 4}


def test_a_model_goes_to_another_process(tmp_path):
    (tmp_path / "own.py").write_text(
        "import varve as vv\nfrom varve import nn\n\n\nclass Own(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = nn.Dense(2)\n\n    def forward(self, x):\n        return self.layer(x)\n"
    )
    sys.path.insert(0, str(tmp_path))
    try:
        import own

        model = own.Own()
        expected = model(vv.ones((1, 3))).tolist()
        (tmp_path / "model.pickle").write_bytes(pickle.dumps(model))
    finally:
        sys.path.remove(str(tmp_path))
    code = "import pickle, varve as vv; print(pickle.load(open('model.pickle', 'rb'))(vv.ones((1, 3))).tolist())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60)
    assert done.stdout.strip() == str(expected), done.stderr


# ---- threads and memory


def test_modules_are_called_from_several_threads():
    model = nn.Sequential(Block(8), nn.Dense(3))  # not built: the first call of each makes variables
    x = vv.ones((4, 8))
    results, errors = [], []

    def work():
        try:
            for _ in range(20):
                results.append(model(x).numpy().tobytes())
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and len(set(results)) == 1 and len(results) == 80


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def test_a_thousand_models_are_collected():
    """Each with cycles, through its attributes and through a list of layers that the library holds."""
    gc.collect()
    alive, before = [], 0
    for i in range(1000):
        block = Block(64)
        model = nn.Sequential(block, nn.Residual(nn.Sequential(Block(64))), nn.Dense(64))
        model.build(64)
        object.__setattr__(block, "owner", model)  # a cycle that goes through the library's list of layers
        model.itself = model
        alive.append(weakref.ref(model))
        if i == 200:
            gc.collect()
            before = resident()
    del block, model
    gc.collect()
    assert sum(1 for each in alive if each() is not None) == 0
    assert resident() - before < 40 << 20  # 800 of them are over 80 MB


def test_own_activations_and_parts_do_not_keep_a_model():
    block = Block(4)
    gone = weakref.ref(block)
    del block
    gc.collect()
    assert gone() is None
