"""Networks of several inputs and outputs: modules, data, training, prediction."""

import copy
import pathlib

import numpy
import pytest

import varve as vv
from varve import data, nn, train

LOSSES = {"digit": "cross_entropy", "size": ("mse", 0.5)}


class Answers(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.seen = nn.Embedding(2, 4), nn.Dense(16, activation="relu")
        self.digit, self.size = nn.Dense(3), nn.Dense(1)

    def forward(self, image, question, train=False):
        seen = self.seen(image, train)
        asked = self.words(question).mean(axis=1)
        return {"digit": self.digit(vv.concat([seen, asked], axis=-1)), "size": self.size(seen)}


def arrays(count=96, seed=0):
    random = numpy.random.default_rng(seed)
    image = random.normal(size=(count, 3)).astype("float32")
    question = random.integers(0, 2, (count, 2))
    return {"image": image, "question": question}, {"size": image.sum(axis=1), "digit": image.argmax(axis=1)}


def test_modules_are_called_by_name_and_by_place():
    model = Answers()
    model.build({"image": (3,), "question": ((2,), "i32")}, seed=1)
    assert [name for name, *_ in model.outputs] == ["digit", "size"]
    x, _ = arrays(4)
    image, question = vv.tensor(x["image"]), vv.tensor(x["question"])
    named = model(question=question, image=image)
    for other in (model(image, question), model(x), model((image, question)), model(image, question, train=True)):
        assert other["digit"].tolist() == named["digit"].tolist()
    with pytest.raises(vv.Error, match="expected 2"):
        model(image)
    with pytest.raises(vv.Error, match="'question' is missing|is missing: expected 2"):
        model(image=image, questio=question)


def test_dicts_of_arrays_train_and_predict(tmp_path):
    x, y = arrays()
    model = Answers()
    options = dict(loss=LOSSES, metrics={"digit": ["accuracy"]}, optimizer="adam", batch=16, verbosity="quiet", seed=3)
    history = model.fit(x, y, epochs=2, validation=arrays(32, 1), run=tmp_path / "run", **options)
    assert {"loss", "digit_loss", "size_loss", "digit_accuracy", "val_digit_accuracy"} <= set(history.epochs[0])
    assert history.epochs[1]["loss"] < history.epochs[0]["loss"]
    answers = model.predict(x)
    assert answers["digit"].shape == (96, 3) and answers["size"].shape == (96, 1)
    assert model.predict(data.dataset(x, y))["size"].tolist() == answers["size"].tolist()
    score = model.evaluate(x, y, loss=LOSSES)
    assert abs(score["loss"] - score["digit_loss"] - 0.5 * score["size_loss"]) < 1e-4
    # Resumed: the same weights as in one go.
    straight, resumed = Answers(), Answers()
    straight.fit(x, y, epochs=3, **options)
    resumed.fit(x, y, epochs=3, run=tmp_path / "run", resume=True, validation=arrays(32, 1), **options)
    for name, value in straight.state_dict().items():
        assert value.tolist() == resumed.state_dict()[name].tolist(), name
    other = Answers()
    other.build({"image": (3,), "question": ((2,), "i32")})
    resumed.save(tmp_path / "model.safetensors")
    other.load(tmp_path / "model.safetensors")
    assert other.predict(x)["size"].tolist() == resumed.predict(x)["size"].tolist()
    assert copy.deepcopy(resumed).predict(x)["size"].tolist() == resumed.predict(x)["size"].tolist()


def test_samples_are_dicts():
    x, y = arrays(12)
    whole = data.dataset(x, y)
    rows = [({k: v[i] for k, v in x.items()}, {k: v[i] for k, v in y.items()}) for i in range(12)]
    flat = [{**a, **b} for a, b in rows]
    for samples in (data.dataset(rows), data.dataset(iter(rows)), data.dataset(flat, keys=(["image", "question"], ["size", "digit"]))):
        assert [name for name, *_ in samples.inputs] == ["image", "question"]
        for (a, b), (c, d) in zip(data.DataLoader(samples, batch=5, shuffle=False), data.DataLoader(whole, batch=5, shuffle=False)):
            for name in a:
                assert a[name].tolist() == c[name].tolist()
            for name in b:
                assert numpy.allclose(b[name].numpy(), d[name].numpy())
    with pytest.raises(vv.Error, match="no field 'imag'"):
        data.dataset(flat, keys=(["imag"], ["digit"]))
    with pytest.raises(vv.Error, match="read by threads"):
        data.DataLoader(data.dataset(rows), processes=True)


def test_by_place_and_refusals():
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Dense(2), nn.Dense(1)

        def forward(self, left, right):
            return self.a(left), self.b(right)

    left, right = numpy.ones((8, 3), "float32"), numpy.ones((8, 2), "float32")
    model = Two()
    history = model.fit((left, right), (numpy.arange(8) % 2, left[:, 0]), loss={"0": "cross_entropy", "1": "mse"}, verbosity="quiet")
    assert "1_loss" in history.epochs[0]
    assert [part.shape for part in model.predict((left, right))] == [(8, 2), (8, 1)]
    with pytest.raises(vv.Error, match="name a loss for each"):
        Two().fit((left, right), (numpy.arange(8) % 2, left[:, 0]), verbosity="quiet")
    with pytest.raises(vv.Error, match="no output 'x'"):
        Two().fit((left, right), (numpy.arange(8) % 2, left[:, 0]), loss={"x": "mse"}, verbosity="quiet")
    joint = train.joint_loss("both", lambda outputs, targets: train.mse(outputs[1], targets[1]))
    Two().fit((left, right), (numpy.arange(8) % 2, left[:, 0]), loss=joint, verbosity="quiet")


def test_the_example_trains_as_text(tmp_path):
    network = pathlib.Path(__file__).parents[2] / "examples/networks/digit-pairs.toml"
    result = train.run(str(network), "data.train=200", "data.test=20", epochs=1, runs=str(tmp_path), verbosity="quiet")
    trained = train.load_run(result.folder)
    assert [name for name, *_ in trained.inputs] == ["left", "right"] and len(trained.target_classes["sum"]) == 19
    pairs = data.digit_pairs(train=10, test=4).test
    assert trained.model.predict(pairs)["sum"].shape == (4, 19)
