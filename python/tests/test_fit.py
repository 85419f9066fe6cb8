"""fit, evaluate, predict and lr_find with all their options, callbacks, and whole runs."""

import csv
import doctest
import inspect
import traceback

import numpy as np
import pytest

import varve as vv
from varve import data, nn, optim, train


@pytest.fixture(scope="module")
def digits():
    return data.digits(train=600, test=200)


@pytest.fixture
def pairs():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(128, 4)).astype("float32")
    return x, (x[:, 0] > 0).astype("int64")


def small():
    return nn.Sequential(nn.Dense(8, activation="tanh"), nn.Dense(2))


def fitted(samples, model=None, **options):
    options.setdefault("optimizer", optim.Adam(1e-2))
    model = model or small()
    return model, model.fit(samples, verbosity="quiet", **options)


# ---- options


def test_every_field_of_the_library_is_a_keyword_with_its_standard():
    ours = inspect.signature(train.fit).parameters
    for name, standard in vv._core._fit_options().items():
        assert ours[name].default == standard, name
    assert set(train.FIT_OPTIONS) - set(vv._core._fit_options()) == {
        "loss", "optimizer", "schedule", "validation", "metrics", "precision", "callbacks", "verbosity", "progress", "processes",
        "parallel", "sampling",
    }  # fmt: skip


def test_typing_errors_are_named(pairs):
    with pytest.raises(TypeError, match="'optimiser'. Did you mean 'optimizer'"):
        small().fit(pairs, optimiser="adam")
    with pytest.raises(ValueError, match="Did you mean 'cross_entropy'"):
        small().fit(pairs, loss="crossentropy")
    with pytest.raises(ValueError, match="Did you mean 'accuracy'"):
        small().fit(pairs, metrics=["acuracy"])
    with pytest.raises(ValueError, match="expected one of auto"):
        small().fit(pairs, verbosity="loud")
    with pytest.raises(ValueError, match="Did you mean 'adam'"):
        small().fit(pairs, optimizer="adams")
    with pytest.raises(TypeError, match="metrics: expected names"):
        small().fit(pairs, metrics=[3])
    with pytest.raises(TypeError, match="instances of train.Callback"):
        small().fit(pairs, callbacks=[train.Callback])
    with pytest.raises(ValueError, match="precision"):
        small().fit(pairs, precision="f17")
    for name in ("epochs", "batch", "monitor", "seed", "optimizer", "precision", "workers", "save_seconds", "config"):
        with pytest.raises(TypeError, match=f"fit: {name} cannot be .*object"):
            small().fit(pairs, **{name: object()})
    with pytest.raises(TypeError, match="schedule: expected"):
        small().fit(pairs, schedule=3)
    with pytest.raises(TypeError, match="loss <lambda> returned a NoneType; expected a Tensor"):
        small().fit(pairs, loss=lambda output, target: None)
    with pytest.raises(TypeError, match="metric half returned a float; expected a Tensor"):

        def half(output, target):
            return 0.5

        small().fit(pairs, metrics=half, verbosity="quiet")
    with pytest.raises(TypeError):
        small().fit(pairs, schedule=lambda progress: None, verbosity="quiet")


def test_the_options_do_what_they_say(pairs, tmp_path):
    model, history = fitted(pairs, epochs=2, batch=50, drop_last=True, validation_share=0.25, accumulate=2, average=0.9, seed=4,
                            precision="bf16", check_layers=True, workers=2, monitor="val_loss", save_steps=1, run=tmp_path / "a",
                            config="# mine\n")  # fmt: skip
    assert history.monitor == "val_loss" and (tmp_path / "a" / "config.toml").read_text() == "# mine\n"
    with pytest.raises(ValueError, match="(?s)holds a run already.*resume=True.*overwrite=True"):
        fitted(pairs, run=tmp_path / "a")
    fitted(pairs, run=tmp_path / "a", overwrite=True)
    assert len(fitted(pairs, run=tmp_path / "a", resume=True, epochs=3)[1].epochs) == 3
    mixed = fitted(pairs, mixup=0.2, epochs=1)[1]
    assert np.isfinite(mixed.epochs[0]["loss"])
    lines = []
    small().fit(pairs, epochs=2, verbosity="lines", progress=lambda line, kept: lines.append((line, kept)))
    assert [kept for _, kept in lines] == [True, True] and lines[1][0].startswith("epoch 2/2")
    assert repr(history).startswith("<varve history, 2 epochs")


def test_the_same_seed_gives_the_same_bits(pairs):
    weights = [fitted(pairs, seed=seed, epochs=2)[0].state_dict()["0.weight"].numpy().tobytes() for seed in (1, 1, 2)]
    assert weights[0] == weights[1] != weights[2]


# ---- losses, metrics, schedules, optimisers


def test_losses_are_names_objects_and_functions(pairs):
    def own(output, target):
        return vv.cross_entropy(output, target)

    def of_each(output, target):
        of_class = vv.tensor([0, 1]) == target[:, None]
        return -vv.sum(vv.log_softmax(output) * of_class.astype("f32"), -1)

    kinds = ("cross_entropy", train.cross_entropy, own, of_each)
    losses = [fitted(pairs, loss=loss, metrics=["accuracy"])[1].epochs[0]["loss"] for loss in kinds]
    assert losses[0] == losses[1] == losses[2] and losses[3] == pytest.approx(losses[0], rel=1e-5)
    smooth = fitted(pairs, loss=train.smoothed_cross_entropy(0.2))[1].epochs[0]["loss"]
    assert smooth != losses[0]
    auto = nn.Sequential(nn.Dense(2), nn.Dense(4))
    assert fitted(pairs, auto, loss="reconstruction")[1].epochs[0]["loss"] > 0
    of_input = lambda output, target: vv.mean((output - target) ** 2)  # noqa: E731
    of_input.of_input = True
    assert fitted(pairs, nn.Sequential(nn.Dense(4)), loss=of_input)[1].epochs[0]["loss"] > 0
    assert auto.lr_find(pairs, loss="reconstruction", steps=20).rates
    alone = auto.fit(pairs[0], loss="reconstruction", validation=pairs[0], verbosity="quiet")
    assert alone.epochs[0]["val_loss"] == auto.evaluate(pairs[0], loss=train.reconstruction)["loss"]
    with pytest.raises(ZeroDivisionError):
        small().fit(pairs, loss=lambda output, target: 1 / 0, verbosity="quiet")
    with pytest.raises(TypeError, match="loss: expected a name"):
        small().fit(pairs, loss=3)


def test_metrics_are_names_objects_functions_and_classes(pairs):
    def right(output, target):
        return (vv.argmax(output, -1) == target).astype("f32")

    def mean_right(output, target):
        return right(output, target).mean()

    class Share:
        name = "share"
        higher_is_better = False

        def sums(self, output, target):
            return vv.stack([right(output, target).sum(), vv.full((), output.shape[0])])

        def value(self, sums):
            return sums[0] / sums[1]

    metrics = ["accuracy", train.top_k_accuracy(1), right, mean_right, Share()]
    model, history = fitted(pairs, metrics=metrics, validation=pairs, epochs=2)
    last = history.epochs[-1]
    assert last["accuracy"] == last["top1"] == last["right"] == pytest.approx(last["mean_right"]) == last["share"]
    score = model.evaluate(*pairs, metrics=["accuracy", Share()], confusion=True)
    assert score["accuracy"] == score["share"] == last["val_accuracy"]
    assert sum(map(sum, score.confusion)) == 128 and score.by_class()[0]["support"] + score.by_class()[1]["support"] == 128
    assert "<svg" in score._repr_html_() and train.area_under_curve([0.1, 0.9], [0, 1]) == 1.0


def test_schedules_are_names_objects_and_functions(pairs):
    seen = []

    def falling(progress):
        seen.append(progress)
        return 1 - progress.step / progress.steps

    history = fitted(pairs, schedule=falling, epochs=2, batch=32, optimizer=optim.SGD(0.5))[1]
    assert history.epochs[-1]["rate"] == pytest.approx(0.5 * (1 - 7 / 8)) and seen[-1].epochs == 2.0
    assert fitted(pairs, schedule="cosine", epochs=2)[1].epochs[-1]["rate"] < 1e-2
    assert fitted(pairs, schedule=optim.cosine().after_warmup(1), epochs=2)[1].epochs[0]["rate"] < 1e-2
    with pytest.raises(ZeroDivisionError):
        fitted(pairs, schedule=lambda progress: 1 / 0)


def test_an_optimiser_of_ones_own(pairs):
    signs = optim.own(lambda w, g, state, rate, step: [w - rate * vv.sign(g)], rate=0.01)
    history = fitted(pairs, optimizer=signs, epochs=4)[1]
    assert history.epochs[-1]["loss"] < history.epochs[0]["loss"]


# ---- callbacks


class Diary(train.Callback):
    def __init__(self):
        super().__init__()
        self.events, self.total = [], 0.0

    def begin(self, session):
        self.events.append("begin")
        self.names = session.value_names

    def step_end(self, session):
        self.total += 1
        self.events.append(f"step {session.step}")

    def epoch_end(self, session):
        self.events.append(f"epoch {session.epoch}")
        self.model, self.kept = session.model, session

    def end(self, session):
        self.events.append("end")

    def name(self):
        return "diary"

    def state(self):
        return [self.total]

    def restore(self, state):
        self.total = state[0]


def test_callbacks_see_everything(pairs, tmp_path):
    diary, steps, epochs = Diary(), [], []
    model, history = fitted(pairs, epochs=2, batch=64, run=tmp_path / "run", callbacks=[
        diary, train.each_step(lambda s: steps.append(s.loss)), train.each_epoch(lambda s: epochs.append(s.optimizer.rate)),
        lambda s: epochs.append(s.run), train.csv_log(str(tmp_path / "log.csv")), train.tensorboard(), train.early_stopping(5),
    ])  # fmt: skip
    assert diary.events == ["begin", "step 1", "step 2", "epoch 1", "step 3", "step 4", "epoch 2", "end"]
    assert diary.names == ["loss", "accuracy"] and diary.model is model
    assert len(steps) == 4 and epochs == [pytest.approx(1e-2), str(tmp_path / "run")] * 2
    assert len(list(csv.reader(open(tmp_path / "log.csv")))) == 3 and list((tmp_path / "run").glob("events*"))
    with pytest.raises(ValueError, match="while its callback runs"):
        diary.kept.epoch
    again = Diary()
    fitted(pairs, epochs=3, batch=64, run=tmp_path / "run", resume=True, callbacks=[again])
    assert again.total == 6  # four from before


@pytest.mark.parametrize("event, at", [("step_end", 3), ("step_end", 4), ("epoch_end", 4), ("begin", 0), ("end", 8)])
def test_an_exception_of_a_callback_comes_out_and_the_run_is_kept(pairs, tmp_path, event, at):
    class Breaks(train.Callback):
        pass

    def broken(self, session):
        if session.step >= at:
            raise LookupError("a typing error")

    setattr(Breaks, event, broken)
    with pytest.raises(LookupError, match="a typing error") as error:
        fitted(pairs, epochs=2, batch=32, run=tmp_path / "run", callbacks=[Breaks()])
    assert "broken" in "".join(traceback.format_exception(error.value))
    resumed = fitted(pairs, epochs=2, batch=32, run=tmp_path / "run", resume=True)
    whole = fitted(pairs, epochs=2, batch=32)
    assert [e["loss"] for e in resumed[1].epochs] == [e["loss"] for e in whole[1].epochs]
    assert resumed[0].state_dict()["0.weight"].numpy().tobytes() == whole[0].state_dict()["0.weight"].numpy().tobytes()


# ---- the others


def test_predict_and_worst(digits):
    model = nn.Sequential(nn.Flatten(), nn.Dense(10))
    model.fit(digits.train, epochs=1, verbosity="quiet")
    whole = model.predict(digits.test, batch=64)
    assert np.array_equal(whole.numpy(), model.predict(digits.test.arrays()[0]).numpy())
    assert np.array_equal(whole.numpy(), model.predict(digits.test, workers=2).numpy())
    worst = train.worst(model, digits.test)
    assert worst[0].loss >= worst[-1].loss and worst[0].png and "<img" in worst[0]._repr_html_()
    found = model.lr_find(digits.train, steps=20, precision="bf16")
    assert "<svg" in found._repr_html_()


def test_pictures_of_history_and_data(digits):
    _, history = fitted(digits.train, nn.Sequential(nn.Flatten(), nn.Dense(10)), epochs=2, validation=digits.test)
    page = history._repr_html_()
    assert page.count("<svg") == 3 and "val_accuracy" in page and len(history.curves()) == 3
    assert digits.train._repr_html_().count("data:image/png;base64") == 8
    assert "<code>" in data.dataset(np.ones((3, 20), "float32"), np.zeros(3))._repr_html_()


NETWORK = """
input = [28, 28, 1]
[[layer]]
flatten = {}
[[layer]]
dense = 10
[train]
data = "digits"
epochs = 2
batch = 32
validation = 0.2
"""


def test_whole_runs(tmp_path):
    (tmp_path / "net.toml").write_text(NETWORK)
    few = ("data.train=300", "data.test=50")
    result = train.run(tmp_path / "net.toml", *few, seed=3, rate=0.01, runs=str(tmp_path / "runs"), verbosity="quiet")
    assert result.tested and result.test["accuracy"] > 0.3 and result.parameters == 7850
    assert train.is_run_folder(result.folder) and [each.state for each in train.runs(tmp_path / "runs")] == ["finished"]
    trained = train.load_run(result.folder)
    assert trained.classes == [str(i) for i in range(10)] and trained.input == ((28, 28, 1), vv.f32)
    other = data.load("digits", train=10, test=20, like=trained).test
    assert trained.model.predict(other).shape == (20, 10)
    longer = train.run(train.inspect_run(result.folder).config, epochs=3, folder=result.folder, resume=True, verbosity="quiet")
    assert len(longer.history.epochs) == 3
    config = train.load_config(tmp_path / "net.toml", epochs=7)
    assert config.epochs == 7 and "epochs = 7" in config.toml() and train.network_input(config)[0] == (28, 28, 1)
    assert not train.make_network(config).built
    with pytest.raises(ValueError, match="Did you mean 'epochs'"):
        train.load_config(tmp_path / "net.toml", epoch=7)
    with pytest.raises(ValueError, match="fnn-mnist"):
        train.load_config("fnn-minst")


# ---- examples


def public(module):
    for name in module.__all__:
        value = getattr(module, name)
        if callable(value) and not isinstance(value, (train.Loss, train.Metric)):
            yield name, value


@pytest.mark.parametrize("module", [data, nn, train])
def test_every_public_name_has_an_example_that_runs(module):
    runner, parser, missing = doctest.DocTestRunner(), doctest.DocTestParser(), []
    for name, value in public(module):
        text = value.__doc__ or ""
        if ">>>" not in text:
            missing.append(name)
        runner.run(parser.get_doctest(text, {}, f"{module.__name__}.{name}", None, None))
    assert missing == [] and runner.failures == 0 and runner.tries > 30
