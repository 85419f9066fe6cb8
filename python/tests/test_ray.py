"""Trainings on a Ray cluster of this machine. `make test-cluster` installs Ray."""

import os
import signal
import tempfile
import threading
import time

import numpy
import pages
import pytest

pytest.importorskip("ray", reason="Ray is not installed (make test-cluster)")

import ray as cluster  # noqa: E402

from varve import data, nn, optim, ray, train  # noqa: E402

FEW = ("data.train=300", "data.test=60")


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Runs without a folder of their own are kept in a temporary one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module", autouse=True)
def three_cpus():
    cluster.init(num_cpus=3, include_dashboard=False, object_store_memory=100_000_000, log_to_driver=False)
    yield
    cluster.shutdown()


def points(count=203):
    x = numpy.random.default_rng(1).normal(size=(count, 4)).astype("float32")
    return x, (x[:, 0] + x[:, 1] > 0).astype("int32")


def network():
    return nn.Sequential(nn.Dense(8, activation="tanh"), nn.Dense(2))


def near(history, expected):
    assert len(history) == len(expected)
    for got, wanted in zip(history, expected):
        for key in wanted:
            if key != "seconds":
                assert got[key] == pytest.approx(wanted[key], abs=1e-3), key


def test_a_network_file_trains_as_with_one_rank(tmp_path):
    alone = train.run("lenet5", *FEW, data="digits", epochs=2, runs=str(tmp_path / "alone"), verbosity="quiet")
    trained = ray.fit("lenet5", *FEW, data="digits", epochs=2, workers=2, run=tmp_path / "run", verbosity="quiet")
    near(trained.history, alone.history.epochs)
    assert trained.test["loss"] == pytest.approx(alone.test["loss"], abs=1e-3)
    assert trained.folder == str(tmp_path / "run") and trained.restarts == 0
    assert {"best.safetensors", "last.safetensors", "index.html", "config.toml"} <= set(os.listdir(trained.folder))
    assert trained.model.evaluate(data.digits(train=1, test=60).test)["loss"] == pytest.approx(trained.test["loss"], abs=1e-4)


def test_a_model_trains_on_arrays_as_with_one_rank():
    x, y = points()
    alone = network().fit(x, y, epochs=3, batch=32, optimizer="sgd", validation=points(50), verbosity="quiet")
    trained = ray.fit(network(), x, y, epochs=3, batch=32, optimizer="sgd", validation=points(50), workers=3, verbosity="quiet")
    near(trained.history, alone.epochs)
    assert trained.model.predict(x[:5]).shape == (5, 2)


def test_ray_data_is_cut_into_parts(capfd):
    import pandas

    x, y = points()
    table = pandas.DataFrame({f"x{i}": x[:, i] for i in range(4)})
    table["side"] = numpy.where(y, "right", "left")
    samples = cluster.data.from_pandas(table)

    def seen(samples):
        part, labels = samples.arrays()
        return len(samples), samples.parts, samples.classes, float(numpy.sum(part.numpy()[:, 0])), int(labels.numpy().sum())

    values = ray.fit(seen, samples=samples, target="side", workers=2).values
    assert [each[0] for each in values] == values[0][1] and sum(values[0][1]) == 203
    assert all(each[2] == ["left", "right"] for each in values)
    assert sum(each[3] for each in values) == pytest.approx(float(x[:, 0].sum()), abs=1e-3)
    assert sum(each[4] for each in values) == int(y.sum())

    # One batch is all of them, so that the order does not matter.
    alone = network().fit(x, y, epochs=3, batch=203, verbosity="quiet")
    trained = ray.fit(network(), samples=samples, target="side", epochs=3, batch=203, workers=2, verbosity="quiet")
    near(trained.history, alone.epochs)


def test_a_function_is_called_on_each_worker():
    def ranks(factor):
        from varve import distributed

        total = distributed.all_sum(numpy.array([1.0 + distributed.rank()], "float32"))
        return factor * distributed.rank(), total.tolist(), os.environ["VARVE_THREADS"], distributed.local_size()

    trained = ray.fit(ranks, 10, workers=2, resources={"CPU": 1})
    assert trained.values == [(0, [3.0], "1", 2), (10, [3.0], "1", 2)]


def test_an_error_of_a_worker_is_raised_here_with_its_text():
    def fails():
        from varve import distributed

        distributed.join()
        if distributed.rank() == 1:
            raise LookupError("no such shelf")
        distributed.rank_barrier()

    began = time.monotonic()
    with pytest.raises(ValueError, match="worker 1: LookupError: no such shelf") as raised:
        ray.fit(fails, workers=2, restarts=3)
    assert "in fails" in str(raised.value) and time.monotonic() - began < 60
    with pytest.raises(ValueError, match="no place for 9 workers"):
        ray.fit(fails, workers=9, patience=1)
    with pytest.raises(ValueError, match="nobody"):
        ray.fit("nobody", workers=2)


def dies(session):
    """Rank 1 is killed in the second epoch; after the restart its actor is, too."""
    restart = os.environ.get("VARVE_RESTART", "")
    if os.environ["VARVE_RANK"] == "1" and session.epoch == 2 and restart == "":
        os.kill(os.getpid(), signal.SIGKILL)
    if os.environ["VARVE_RANK"] == "1" and session.epoch == 3 and restart == "1":
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(60)


def test_a_worker_that_dies_is_started_again_from_the_last_checkpoint(tmp_path, capfd):
    x, y = points()
    options = dict(epochs=5, batch=40, workers=2, validation=points(50), seed=4, verbosity="quiet")
    whole = ray.fit(network(), x, y, run=tmp_path / "whole", **options)
    broken = ray.fit(network(), x, y, run=tmp_path / "broken", restarts=2, callbacks=[dies], **options)
    assert broken.restarts == 2 and len(broken.history) == 5
    story = capfd.readouterr().err
    assert "worker 1 was ended by signal 9" in story and "worker 1 has died" in story and "0 restarts left" in story
    for name, value in whole.model.state_dict().items():
        assert numpy.array_equal(numpy.asarray(value), numpy.asarray(broken.model.state_dict()[name])), name

    with pytest.raises(ValueError, match="No restarts are left"):
        ray.fit(network(), x, y, run=tmp_path / "third", callbacks=[dies], **options)
    assert os.path.exists(tmp_path / "third" / "last.safetensors")


def test_an_interrupt_saves_and_the_run_can_be_resumed(tmp_path):
    x, y = points()
    folder = tmp_path / "run"
    options = dict(batch=40, workers=2, seed=4, verbosity="quiet", run=folder)

    def interrupt():
        while not (folder / "results.csv").exists():
            time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        ray.fit(network(), x, y, epochs=100_000, **options)
    thread.join()
    done = (folder / "results.csv").read_text()
    with pytest.raises(ValueError, match="holds a run already"):
        ray.fit(network(), x, y, epochs=1, **options)
    epochs = len(done.splitlines()) + 2  # the first line names the columns; the last epoch may be half done
    resumed = ray.fit(network(), x, y, epochs=epochs, resume=True, **options)
    assert len(resumed.history) == epochs


def test_what_cannot_be_sent_is_refused():
    x, y = points()
    with pytest.raises(TypeError, match="cannot be sent"):
        ray.fit(network(), x, y, optimizer=optim.Adam(1e-3), workers=2)
    with pytest.raises(TypeError, match="needs samples"):
        ray.fit(network(), workers=2)
    with pytest.raises(TypeError, match="transforms"):
        ray.fit(network(), data.digits(train=10, test=1).train.map("flip"), workers=2)


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert any(step.printed for step in pages.program("docs/clusters.md", "python ray"))
    pages.run("docs/clusters.md", "python ray")
