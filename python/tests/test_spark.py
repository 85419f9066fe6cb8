"""Trainings on Spark in one process of this machine, and on two executors. `make test-cluster` installs Spark; it needs Java."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile

import numpy
import pages
import pytest

pytest.importorskip("pyspark", reason="Spark is not installed (make test-cluster)")
if not shutil.which("java"):
    pytest.skip("Spark needs Java (make test-cluster)", allow_module_level=True)

from pyspark.sql import SparkSession, functions  # noqa: E402

from varve import data, nn, spark, train  # noqa: E402

TABLE = """
input = [4]
[[layer]]
dense = {out = 16, activation = "tanh"}
[[layer]]
dense = 1
[train]
loss = "mse"
epochs = 20
batch = 32
optimizer = {adam = {rate = 0.02}}
"""


def session(master):
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(master).config("spark.ui.enabled", False).config("spark.driver.memory", "512m")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    builder = builder.config("spark.sql.shuffle.partitions", 3).config("spark.log.level", "OFF")
    return builder.getOrCreate()


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Runs without a folder of their own are kept in a temporary one."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))


@pytest.fixture(scope="module", autouse=True)
def local():
    found = session("local[3]")
    yield found
    found.stop()


def houses(local, count=301):
    random = numpy.random.default_rng(0)
    area, rooms, wood = random.normal(size=count), random.integers(0, 10, count), random.integers(0, 2, count)
    rows = [(float(a), int(r), "wood" if w else "brick", float(100 + 30 * a + r + 10 * w)) for a, r, w in zip(area, rooms, wood)]
    return local.createDataFrame(rows, "area double, rooms int, wall string, price double")


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.toml"
    path.write_text(TABLE)
    return str(path)


def test_a_table_trains_and_the_model_answers_in_its_unit(local, table, tmp_path):
    frame = houses(local)
    trained = spark.fit(frame, table, workers=3, run=tmp_path / "run", verbosity="quiet")
    assert len(trained.history) == 20 and trained.history[-1]["mean_absolute_error"] < 4 and trained.restarts == 0
    answers = trained.transform(frame.drop("price").repartition(5), scores="outputs").toPandas()
    assert list(answers.columns) == ["area", "rooms", "wall", "prediction", "outputs"] and len(answers) == 301
    truth = 100 + 30 * answers.area + answers.rooms + 10 * (answers.wall == "wood")
    assert abs(answers.prediction - truth).mean() < 4

    # The run is one like any other: the command predicts from it, in the same unit.
    run = train.load_run(trained.folder)
    assert run.table.target.name == "price" and [each.name for each in run.table.inputs] == ["area", "rooms", "wall"]
    rows = answers[["area", "rooms", "wall"]].to_csv(index=False)
    mine = run.table.unscaled(run.model.predict(run.table.encode(rows)[0])).numpy()[:, 0]
    assert numpy.abs(mine - answers.prediction).max() < 0.01
    assert spark.transform(frame, trained.folder).agg(functions.count("prediction")).collect()[0][0] == 301


def test_uneven_partitions_are_all_of_the_data(local):
    """One batch is all rows, so that the order does not matter: the losses are those of one rank."""
    random = numpy.random.default_rng(3)
    x = random.normal(size=(157, 3)).astype("float32")
    y = numpy.where(x.sum(1) > 0, "yes", "no")
    frame = local.createDataFrame([(*map(float, row), str(answer)) for row, answer in zip(x, y)], "a double, b double, c double, said string")
    held = frame.limit(31)
    model = nn.Sequential(nn.Dense(8, activation="tanh"), nn.Dense(2))
    scaled = (x - x.mean(0)) / x.std(0)
    classes = (y == "yes").astype("int32")
    first = held.toPandas()[["a", "b", "c"]].to_numpy("float32")
    alone = model.fit(scaled, classes, epochs=3, batch=157, verbosity="quiet",
                      validation=((first - x.mean(0)) / x.std(0), (first.sum(1) > 0).astype("int32")))  # fmt: skip
    again = nn.Sequential(nn.Dense(8, activation="tanh"), nn.Dense(2))
    trained = spark.fit(frame, again, epochs=3, batch=157, validation=held, workers=2, verbosity="quiet")
    for got, wanted in zip(trained.history, alone.epochs):
        for key in ("loss", "accuracy", "val_loss", "val_accuracy"):
            assert got[key] == pytest.approx(wanted[key], abs=1e-3), key
    assert set(trained.transform(frame).toPandas().prediction) <= {"yes", "no"}

    def seen(samples):
        return samples.parts, len(samples)

    few = spark.fit(frame.limit(2), seen, workers=3).values
    assert sum(few[0][0]) == 2 and [each[1] for each in few] == few[0][0]


def test_columns_of_arrays_take_the_shape_of_the_network(local):
    digits = data.digits(train=200, test=40)
    x, y = (each.numpy() for each in digits.train.arrays())
    frame = local.createDataFrame([(row.reshape(-1).tolist(), int(label)) for row, label in zip(x, y)], "pixels array<float>, digit int")
    trained = spark.fit(frame, "lenet5", features="pixels", label="digit", workers=2, epochs=2, verbosity="quiet")
    assert trained.model.input[0] == (28, 28, 1) and len(trained.history) == 2
    answers = trained.transform(frame, output="guess").toPandas()
    assert answers.guess.dtype == "int64" and list(answers.guess) == trained.model.predict(x).numpy().argmax(1).tolist()


def test_a_raised_error_ends_the_job_and_is_raised_here(local):
    def fails(samples):
        from varve import distributed

        distributed.join()
        if distributed.rank() == 1:
            raise LookupError("no such shelf")
        distributed.rank_barrier()

    with pytest.raises(ValueError, match="worker 1: LookupError: no such shelf"):
        spark.fit(houses(local), fails, workers=2)
    with pytest.raises(ValueError, match="no column 'rent'"):
        spark.fit(houses(local), fails, label="rent", workers=2)
    hollow = houses(local).withColumn("rooms", functions.when(functions.col("rooms") > 2, functions.col("rooms")))
    with pytest.raises(ValueError, match="rows have no value in column 'rooms'"):
        spark.fit(hollow, fails, workers=2)
    strange = local.createDataFrame([(0.5, 3, "straw", 101.0)], houses(local).schema)
    with pytest.raises(ValueError, match="'straw' was not there in training; known are brick, wood"):
        spark.fit(houses(local), fails, validation=strange, workers=2)


def dies(session):
    """Rank 1 is killed in the third epoch, once."""
    marker = os.environ["VARVE_TEST_MARKER"]
    if os.environ["VARVE_RANK"] == "1" and session.epoch == 3 and not os.path.exists(marker):
        open(marker, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_worker_that_dies_is_started_again_from_the_last_checkpoint(local, tmp_path, monkeypatch):
    def marked(session, marker=str(tmp_path / "died")):
        os.environ["VARVE_TEST_MARKER"] = marker
        dies(session)

    def network():
        return nn.Sequential(nn.Dense(8, activation="tanh"), nn.Dense(1))

    frame = houses(local)
    options = dict(loss="mse", epochs=5, batch=40, seed=2, workers=2, verbosity="quiet")
    whole = spark.fit(frame, network(), checkpoints=tmp_path / "whole", **options)
    broken = spark.fit(frame, network(), checkpoints=tmp_path / "broken", callbacks=[marked], **options)
    assert (whole.restarts, broken.restarts) == (0, 1) and len(broken.history) == 5
    for name, value in whole.model.state_dict().items():
        assert numpy.array_equal(numpy.asarray(value), numpy.asarray(broken.model.state_dict()[name])), name


PROGRAM = """
import sys
import test_spark
from varve import spark
cluster = test_spark.session("local-cluster[2,1,1024]")
trained = spark.fit(test_spark.houses(cluster, 101), sys.argv[1], workers=2, epochs=2, verbosity="quiet")
print("trained", len(trained.history), trained.transform(test_spark.houses(cluster, 9)).count())
cluster.stop()
"""


def test_two_executors(table):
    """Of one machine, each a process of its own."""
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    done = subprocess.run([sys.executable, "-c", PROGRAM, table], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "trained 2 9" in done.stdout, done.stderr[-3000:]


def test_the_program_of_the_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert any(step.printed for step in pages.program("docs/clusters.md", "python spark"))
    pages.run("docs/clusters.md", "python spark")
