"""Layers, own parts written in Python, and training."""

import gc
import subprocess
import sys
import weakref

import numpy as np
import pytest

import varve as vv
from varve import data, nn, optim, train, zoo


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, kernel=3), nn.Conv2d(channels, kernel=3)

    def forward(self, x, train=False):
        return vv.relu(x + self.second(vv.relu(self.first(x, train)), train))


class Scale(nn.Module):
    """A layer with a parameter of its own; forward without train."""

    def __init__(self, width):
        super().__init__()
        self.scale = nn.Parameter(vv.ones(width))

    def forward(self, x):
        return x * self.scale


@pytest.fixture(scope="module")
def digits():
    return data.digits(train=1500, test=300)


def test_modules_register_their_parts():
    model = nn.Sequential(nn.Conv2d(4, kernel=3, activation="relu"), Residual(4), nn.Flatten(), Scale(4 * 64), nn.Dense(3))
    model.build((8, 8, 1))
    names = list(model.state_dict())
    assert "1.first.weight" in names and "3.scale" in names and "4.bias" in names
    assert isinstance(model, vv._core.Module) and "Residual" in model.summary()
    assert isinstance(nn.Dense(3), nn.Dense) and not isinstance(nn.Dense(3), nn.Conv2d)
    assert len(model.parameters()) == 2 + 4 + 1 + 2
    model.freeze("1.*")
    assert len(model.parameters()) == 5


def test_layers_refuse_what_they_do_not_know():
    with pytest.raises(ValueError, match="kernel"):
        nn.Conv2d(4, kernal=3)
    with pytest.raises(TypeError, match="two values"):
        nn.Dense(3, out=4)
    with pytest.raises(ValueError, match="relu"):
        nn.Dense(3, activation="rely")


def test_state_goes_from_model_to_model(tmp_path):
    a, b = nn.Sequential(nn.Dense(3)), nn.Sequential(nn.Dense(3))
    a.build((4,), seed=1)
    b.build((4,), seed=2)
    b.load_state_dict({name: value.numpy() for name, value in a.state_dict().items()})
    assert np.array_equal(a(vv.ones((1, 4))).numpy(), b(vv.ones((1, 4))).numpy())
    theirs = {"0.weight": np.asarray(a.state_dict()["0.weight"]).T.copy(), "0.bias": a.state_dict()["0.bias"].numpy()}
    b.build((4,), seed=3)
    b.load_state_dict(theirs, layout="pytorch")
    assert np.array_equal(a(vv.ones((1, 4))).numpy(), b(vv.ones((1, 4))).numpy())
    a.save(str(tmp_path / "a.safetensors"))
    b.load(tmp_path / "a.safetensors")
    assert set(vv.load(str(tmp_path / "a.safetensors"))) == {"0.weight", "0.bias"}
    with pytest.raises(ValueError):
        b.load_state_dict({"0.weight": np.zeros((4, 3), "float32")})


def test_a_state_is_what_a_file_holds(tmp_path):
    model = nn.Sequential(nn.LSTM(4, stateful=True, bidirectional=True), nn.GRU(3, stateful=True), nn.Dropout(0.5), nn.BatchNorm())
    model.build((5, 2))
    model(vv.ones((2, 5, 2)), train=True)
    model.save(tmp_path / "m.safetensors")
    assert set(model.state_dict()) == set(vv.load(str(tmp_path / "m.safetensors")))
    assert model.load_state_dict(model.state_dict()) == ([], [])
    with pytest.raises(ValueError, match="layout"):
        model.save(tmp_path / "m.safetensors", layout="torch")


def test_fit_evaluate_predict(digits, tmp_path):
    model = nn.Sequential(nn.Conv2d(8, kernel=3, activation="relu"), nn.MaxPool2d(2), Residual(8), nn.Flatten(), nn.Dense(10))
    history = model.fit(digits.train, optimizer=optim.Adam(3e-3), epochs=2, batch=64, validation=digits.test,
                        run=str(tmp_path / "run"), verbosity="quiet")  # fmt: skip
    assert history.epochs[1]["loss"] < history.epochs[0]["loss"]
    assert "val_accuracy" in history.epochs[0] and "<table>" in history._repr_html_()
    score = model.evaluate(digits.test)
    assert score["accuracy"] > 0.5
    outputs = model.predict(digits.test)
    assert outputs.shape == (300, 10)
    assert (tmp_path / "run" / "best.safetensors").exists()


def test_own_loop_loss_metric_callback_optimizer_and_dataset():
    class Squares:
        def __len__(self):
            return 64

        def __getitem__(self, i):
            x = np.float32([i / 64, 1.0])
            return x, np.float32([x[0] ** 2])

    def own_loss(output, target):
        return vv.mean(vv.abs(output - target))

    def distance(output, target):
        return vv.abs(output - target)

    seen = []

    class Stop(train.Callback):
        def epoch_end(self, session):
            seen.append((session.epoch, session.history.epochs[-1]["distance"]))
            if session.epoch == 3:
                session.stop("enough")

    momentum = optim.own(
        lambda w, g, state, rate, step: [w - rate * (0.5 * state[0] + g), 0.5 * state[0] + g], state=["v"], rate=0.05
    )
    model = nn.Sequential(nn.Dense(8, activation="tanh"), nn.Dense(1))
    history = model.fit(Squares(), loss=own_loss, metrics=[distance], callbacks=[Stop()], optimizer=momentum, epochs=10,
                        batch=16, verbosity="quiet")  # fmt: skip
    assert [epoch for epoch, _ in seen] == [1, 2, 3] and history.stopped == "enough"
    assert seen[-1][1] < seen[0][1]

    adam = optim.Adam(1e-2).over(model.parameters())

    @vv.compile
    def step(x, y):
        loss, grads = vv.value_and_grad(lambda: own_loss(model(x, train=True), y), model.parameters())
        adam.apply(grads)
        return loss

    losses = [step(x, y).item() for _ in range(3) for x, y in data.DataLoader(Squares(), batch=16, seed=7)]
    assert len(losses) == 12 and adam.steps() == 12


def test_samples_that_do_not_fit_are_named():
    class Odd:
        def __len__(self):
            return 8

        def __getitem__(self, i):
            return np.zeros(3 if i < 5 else 4, "float32"), 0

    with pytest.raises(ValueError, match="sample [567].*shape"):
        list(data.DataLoader(Odd(), batch=8))

    class Fails(Odd):
        def __getitem__(self, i):
            if i == 6:
                raise OSError("the disk is gone")
            return np.zeros(3, "float32"), 0

    with pytest.raises(ValueError, match="the disk is gone"):
        list(data.DataLoader(Fails(), batch=8))


def test_arrays_tables_and_generators_are_data():
    x, y = np.random.default_rng(0).normal(size=(40, 3)).astype("float32"), np.arange(40) % 2
    assert len(data.dataset(x, y)) == len(data.dataset((x, y))) == 40
    assert len(data.dataset(((x[i], y[i]) for i in range(7)))) == 7
    batches = list(data.DataLoader((x, y), batch=16, shuffle=False))
    assert [b[0].shape for b in batches] == [(16, 3), (16, 3), (8, 3)]
    assert np.array_equal(batches[0][0].numpy(), x[:16])


def test_loaders_give_a_new_order_each_epoch():
    loader = data.DataLoader((np.arange(50, dtype="float32").reshape(50, 1), np.zeros(50, "int64")), batch=50, seed=3)
    first, second = (next(iter(loader))[0].numpy().ravel() for _ in range(2))
    assert not np.array_equal(first, second) and sorted(first) == sorted(second)


def test_the_zoo():
    model = zoo.lenet5()
    model.build((28, 28, 1))
    assert model.parameter_count() == next(e for e in zoo.entries() if e.name == "lenet5").parameters
    with pytest.raises(AttributeError, match="entries"):
        zoo.nothing


def test_dropped_models_are_collected():
    gc.collect()
    alive = []
    for _ in range(200):
        model = nn.Sequential(Residual(2), nn.Flatten(), nn.Dense(2))
        model.build((4, 4, 2))
        model.itself = model if hasattr(model, "__dict__") else None
        alive.append(weakref.ref(model))
    del model
    gc.collect()
    assert sum(1 for each in alive if each() is not None) == 0


def test_lr_find_and_schedules(digits):
    model = nn.Sequential(nn.Flatten(), nn.Dense(10))
    found = model.lr_find(digits.train, steps=30)
    assert len(found.rates) == len(found.losses)
    assert optim.cosine().factor(0, 10, 0.0, 1.0) == 1.0


def test_interrupts_reach_python(tmp_path):
    code = f"""
import os, signal, threading
from varve import data, nn
model = nn.Sequential(nn.Flatten(), nn.Dense(10))
threading.Timer(1.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
try:
    model.fit(data.digits(train=5000, test=10).train, epochs=100000, batch=32, run={str(tmp_path / "run")!r}, verbosity="quiet")
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "interrupted", done.stderr
    assert (tmp_path / "run" / "last.safetensors").exists()
