"""Training on a Spark cluster, and predictions over its tables: `pip install varve-dl[spark]`.

    from varve import spark
    trained = spark.fit(df, "table.toml", label="price", workers=8)
    trained.transform(new_rows).show()                # the same columns, and `prediction`

The table's partitions go to the tasks of one barrier stage, by Arrow; each task starts one rank as a process of its own, and
keeps its part. The run's folder comes back. Where a task dies, Spark starts the stage again; with `checkpoints`, a folder that
all workers see, training goes on from the last one.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import sys
import tempfile
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from . import _core, _jobs, train
from ._columns import Column, Columns, joined
from ._core import Error
from ._jobs import Trained
from ._spark_table import columns_of, selected

__all__ = ["SparkTrained", "fit", "transform"]

_MARK = "__varve_validation"


def _spark(module: str = "") -> Any:
    return _jobs.needed(f"pyspark{module}", "spark")


class SparkTrained(Trained):
    """A model that was trained on a table, and how the table's columns become its samples.

    >>> from varve import spark
    >>> trained = spark.fit(df, "table.toml", label="price", workers=2)
    >>> trained.transform(df).columns[-1]
    'prediction'
    """

    def transform(self, df: Any, **options: Any) -> Any:
        """The table with a column of predictions: `varve.spark.transform`."""
        return transform(df, self, **options)


def fit(
    df: Any,
    what: Any,
    *arguments: Any,
    workers: int = 2,
    label: str = "",
    features: Union[str, Sequence[str]] = (),
    validation: Any = None,
    standardize: bool = True,
    run: Union[str, "os.PathLike[str]"] = "",
    checkpoints: Union[str, "os.PathLike[str]"] = "",
    threads: int = 0,
    verbosity: str = "lines",
    **options: Any,
) -> SparkTrained:
    """Trains on the rows of a Spark table.

    - what, arguments, options: a network file, a network of the zoo or a `train.Config`, with changes as `train.run` takes them;
      or a model, with what `model.fit` takes; or a function, which each worker calls with `samples`, its part of the table
    - label: the target's column, unless given the last one. Text and whole numbers are classes (whole numbers are numbers where the
      loss is mse, mae or huber). features: the columns of the input, unless given all others: numbers, which are brought to mean 0
      and deviation 1 unless `standardize` is False, and text, which becomes a number for each category; or one column of arrays
      (or of vectors of Spark ML), taken as they are in the shape that the network takes
    - workers: ranks, which Spark must have room for at one time. threads: of each, unless given the CPUs of a task
    - validation: another table
    - run: a folder of this machine for weights and curves, unless given a temporary one
    - checkpoints: a folder that all workers see. When a worker has died, Spark starts all of them again (so often as
      `spark.stage.maxConsecutiveAttempts` says), from the last checkpoint in it, or without it from the beginning. One that raises
      ends the job: its error is raised here

    >>> from varve import spark
    >>> trained = spark.fit(df, "table.toml", label="price", workers=2)
    >>> trained.transform(df).select("price", "prediction").show()
    """
    _spark()
    if workers < 1:
        raise ValueError(f"fit: expected 1 worker or more, got {workers}")
    pickler = _spark(".cloudpickle").dumps
    job = _jobs.describe(what, arguments, options, pickler, os.fspath(checkpoints) or "run", verbosity)
    columns, table = columns_of(df, label, features, standardize, *_wanted(what, job, options))
    if validation is not None:
        functions = _spark(".sql.functions")
        held, _ = selected(validation, columns)
        table = table.withColumn(_MARK, functions.lit(False)).unionByName(held.withColumn(_MARK, functions.lit(True)))
    folder = _jobs.run_folder(run)
    stage = _Stage(job, columns, secrets.token_hex(16), threads, bool(checkpoints))
    done = table.repartition(workers).mapInArrow(stage.task, "rank int, name string, content binary", barrier=True)
    try:
        rows = done.repartition(1).collect()  # a barrier stage can be started again if another one follows
    except Exception as error:
        found = re.search(r"varve: (worker \d.*)", str(error))
        if not found:
            raise
        raise Error(f"spark: {found[1]} (after as many attempts as spark.stage.maxConsecutiveAttempts says)") from error
    return _result(rows, folder, job, columns)


def _result(rows: Sequence[Any], folder: str, job: Dict[str, Any], columns: Columns) -> SparkTrained:
    import pickle

    failures = [pickle.loads(bytes(row["content"])) for row in rows if row["name"] == "failure"]
    if failures:
        first = min(failures, key=lambda each: float(each["time"]))
        raise Error(f"worker {first['rank']}: {first['text']}\n\nIn worker {first['rank']}:\n{first['trace']}")
    answers = {row["rank"]: pickle.loads(bytes(row["content"])) for row in rows if row["name"] == "answer"}
    files = {row["name"][len("file ") :]: bytes(row["content"]) for row in rows if row["name"].startswith("file ")}
    _jobs.write_folder(folder, files)
    attempts = [int(row["name"].split()[1]) for row in rows if row["name"].startswith("attempt ")]
    values = [answers[rank] for rank in sorted(answers)]
    return SparkTrained(folder, job["kind"], values, max(attempts), job.get("payload"), columns)


# ---- columns


def _wanted(what: Any, job: Dict[str, Any], options: Dict[str, Any]) -> Tuple[str, Tuple[int, ...]]:
    """The loss, and a sample's shape as far as it is known: arrays of a column are given that shape."""
    if job["kind"] == "config":
        config = train.config_from_toml(job["text"], job["name"])
        return config.loss, tuple(train.network_input(config)[0])
    built = isinstance(what, _core.Module) and what.built and what.input
    return str(options.get("loss", "cross_entropy")), tuple(what.input[0]) if built else ()


# ---- the stage


class _Stage:
    """What each task of the barrier stage does."""

    def __init__(self, job: Dict[str, Any], columns: Columns, key: str, threads: int, shared: bool) -> None:
        self.job, self.columns, self.key = job, columns, key
        self.threads, self.shared = threads, shared

    def task(self, batches: Iterator[Any]) -> Iterator[Any]:
        context = _spark().BarrierTaskContext.get()
        folder = tempfile.mkdtemp(prefix="varve-spark-")
        try:
            for row in self._rows(context, batches, folder):
                yield _batch([row])
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _rows(self, context: Any, batches: Iterator[Any], folder: str) -> Iterator[Tuple[int, str, bytes]]:
        import pickle

        number = context.partitionId()
        try:
            job = {**self.job, **self._stored(batches, folder)}
        except Error as error:
            raise RuntimeError(f"varve: worker {number}: {error}") from error
        if job["run"] and not self.shared:
            job["run"] = os.path.join(folder, "run")
        attempt = self._begun_before() if number == 0 and self.shared else 0
        job["resume"] = attempt > 0
        rank = _jobs.Rank(os.path.join(folder, "rank"), job, self._variables(context, number, attempt))
        try:
            while rank.ended() is None:
                time.sleep(0.1)
                _show(number, rank)
            _show(number, rank)
            code, failure = rank.ended() or 0, rank.failure()
            if code == 0:
                yield number, "answer", pickle.dumps(rank.answer())
            elif failure:
                # Handed over and not raised: Spark would start again what cannot end well.
                yield number, "failure", pickle.dumps({**failure, "rank": number})
            else:
                how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
                raise RuntimeError(f"varve: worker {number} {how}")
        finally:
            rank.stop()
        yield number, f"attempt {attempt}", b""
        if number == 0 and job["run"] and code == 0:
            for name, content in _jobs.read_folder(job["run"], {}).items():
                yield number, f"file {name}", content

    def _begun_before(self) -> int:
        """How often this job has begun before: the shared folder keeps count."""
        os.makedirs(self.job["run"], exist_ok=True)
        path = os.path.join(self.job["run"], f"spark-{self.key[:16]}.attempts")
        with open(path, "a+") as file:
            file.write("begun\n")
            file.seek(0)
            return len(file.readlines()) - 1

    def _stored(self, batches: Iterator[Any], folder: str) -> Dict[str, Any]:
        """This task's rows as arrays in files."""
        import numpy

        parts: Dict[str, List[Tuple[Any, Any]]] = {"samples": [], "validation": []}
        held = False
        for batch in batches:
            values = {name: batch.column(place).to_numpy(zero_copy_only=False) for place, name in enumerate(batch.schema.names)}
            mark = values.pop(_MARK, None)
            held = held or mark is not None
            for name, chosen in (("samples", False), ("validation", True)):
                rows = values if mark is None else {key: each[mark.astype(bool) == chosen] for key, each in values.items()}
                if (mark is not None or not chosen) and len(next(iter(rows.values()))):
                    parts[name].append((self.columns.x(rows), self.columns.y(rows)))
        table: Dict[str, Any] = {}
        if not self.columns.arrays:
            table = {"inputs": [tuple(each) for each in self.columns.inputs], "target": tuple(self.columns.target)}
        stored = {}
        for name, wanted in (("samples", True), ("validation", held)):
            x, y = joined(parts[name], self.columns)
            if wanted:
                stored[name] = _jobs.stored(folder, name, numpy.asarray(x), y, classes=self.columns.target.categories, part=True, **table)
        return stored

    def _variables(self, context: Any, number: int, attempt: int) -> Dict[str, str]:
        """Where each task is, and the port that the first one has found free."""
        hosts = [info.address.rsplit(":", 1)[0] if info.address.count(":") == 1 else info.address for info in context.getTaskInfos()]
        address = "127.0.0.1" if len(set(hosts)) == 1 else hosts[0]
        said = f"{_jobs.free_port(address)} {secrets.token_hex(8)}" if number == 0 else ""
        port, once = context.allGather(said)[0].split()
        return _jobs.variables(number, hosts, f"{address}:{port}", self.key + once, self.threads or context.cpus(), attempt)


def _show(number: int, rank: _jobs.Rank) -> None:
    for line in rank.lines():
        sys.stderr.write(f"[{number}] {line}" if number else line)


def _batch(rows: List[Tuple[int, str, bytes]]) -> Any:
    pyarrow = _jobs.needed("pyarrow", "spark")
    ranks, names, contents = zip(*rows)
    arrays = [pyarrow.array(ranks, pyarrow.int32()), pyarrow.array(names, pyarrow.string()), pyarrow.array(contents, pyarrow.binary())]
    return pyarrow.RecordBatch.from_arrays(arrays, ["rank", "name", "content"])


# ---- predictions


def transform(df: Any, trained: Any, *, output: str = "prediction", scores: str = "", batch: int = 256) -> Any:
    """A Spark table with the predictions of a model, computed in parallel for its partitions.

    - trained: what `fit` gave, or the folder of a run that was trained on a table (by `varve train` too)
    - output: the name of the new column: the class in the words of the label's column, or the number in its unit
    - scores: the name of a second column, with all outputs of the network; "": none

    >>> from varve import spark
    >>> spark.transform(df, "runs/table-1").select("prediction").show()
    """
    functions, types = _spark(".sql.functions"), _spark(".sql.types")
    columns, predictor = _predictor(trained, batch)
    kind = types.DoubleType() if columns.numbers else types.LongType() if columns.whole else types.StringType()
    struct = types.StructType([types.StructField("answer", kind), types.StructField("scores", types.ArrayType(types.FloatType()))])
    _, chosen = selected(df, columns, target=False)
    pandas: Any = _jobs.needed("pandas", "spark")

    def predict(batches: Any) -> Any:
        return predictor(batches)

    iterator: Any = Iterator
    several: Any = Tuple
    predict.__annotations__ = {"batches": iterator[several[pandas.Series, ...]], "return": iterator[pandas.DataFrame]}
    udf = functions.pandas_udf(predict, returnType=struct).asNondeterministic()  # or it is computed for each of its fields
    made = df.withColumn("__varve", udf(*chosen))
    wanted = [functions.col("__varve.answer").alias(output)]
    if scores:
        wanted.append(functions.col("__varve.scores").alias(scores))
    kept = [functions.col(f"`{name}`") for name in df.columns if name not in (output, scores)]
    return made.select(*kept, *wanted)


def _predictor(trained: Any, batch: int) -> Tuple[Columns, Callable[[Any], Any]]:
    import pickle

    if isinstance(trained, Trained):
        if trained.columns is None:
            raise Error("transform: this model was not trained on a Spark table")
        columns, weights = trained.columns, pickle.dumps(trained.model)
    else:
        loaded = train.load_run(trained)
        if loaded.table is None:
            raise Error(f"transform: {trained} was not trained on a table")
        inputs = [Column(each.name, each.categories, each.mean, each.deviation) for each in loaded.table.inputs]
        target = loaded.table.target
        columns = Columns(inputs, Column(target.name, target.categories, target.mean, target.deviation), loaded.table.regression)
        weights = pickle.dumps(loaded.model)
    return columns, _Predictor(columns, weights, batch)


class _Predictor:
    """The model in a task's process, where it is made once."""

    models: Dict[bytes, Any] = {}

    def __init__(self, columns: Columns, weights: bytes, batch: int) -> None:
        self.columns, self.weights, self.batch = columns, weights, batch

    def _model(self) -> Any:
        import hashlib
        import pickle

        from . import set_threads

        digest = hashlib.sha256(self.weights).digest()
        if digest not in _Predictor.models:
            context = _spark().TaskContext.get()
            set_threads(max(1, context.cpus() if context else 1))
            _Predictor.models.clear()
            _Predictor.models[digest] = pickle.loads(self.weights)
        return _Predictor.models[digest]

    def __call__(self, batches: Any) -> Any:
        pandas = _jobs.needed("pandas", "spark")
        model: Optional[Any] = None
        for given in batches:
            series = given if isinstance(given, tuple) else (given,)  # of one column alone
            model = model or self._model()
            named = {column.name: each.to_numpy() for column, each in zip(self.columns.inputs, series)}
            if not len(series[0]):
                yield pandas.DataFrame({"answer": [], "scores": []})
                continue
            outputs = train.predict(model, self.columns.x(named), batch=self.batch).numpy()
            outputs = outputs.reshape(len(outputs), -1)
            yield pandas.DataFrame({"answer": self.columns.answers(outputs), "scores": list(outputs)})
