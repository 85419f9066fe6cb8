"""How the columns of a Spark table become samples: found once, by Spark itself, for the whole table."""

from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple, Union

from . import _jobs
from ._columns import Column, Columns
from ._core import Error

NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "boolean")
WHOLE = ("tinyint", "smallint", "int", "bigint", "boolean")
MOST_CATEGORIES = 1000


def selected(df: Any, columns: Columns, target: bool = True) -> Tuple[Any, Any]:
    """The columns that are needed, vectors of Spark ML as arrays."""
    functions = _jobs.needed("pyspark.sql.functions", "spark")
    chosen = []
    for column in [*columns.inputs, *([columns.target] if target else [])]:
        if column.name not in df.columns:
            raise Error(f"the table has no column {column.name!r}; it has {', '.join(df.columns)}")
        found = functions.col(f"`{column.name}`")
        if df.schema[column.name].dataType.typeName() in ("vector", "vectorudt"):
            found = _jobs.needed("pyspark.ml.functions", "spark").vector_to_array(found, "float32").alias(column.name)
        chosen.append(found)
    return df.select(*chosen), chosen


def columns_of(
    df: Any, label: str, features: Union[str, Sequence[str]], standardize: bool, loss: str, shape: Tuple[int, ...]
) -> Tuple[Columns, Any]:
    target = label or df.columns[-1]
    names = [features] if isinstance(features, str) else list(features) or [name for name in df.columns if name != target]
    if not names:
        raise Error(f"fit: the table has no column beside its label {target!r}")
    unknown = Columns([Column(name) for name in names], Column(target), True)
    table, _ = selected(df, unknown)
    kinds = dict(table.dtypes)
    arrays = kinds[names[0]].startswith("array")
    for name in names:
        if kinds[name].startswith("array") and len(names) > 1:
            raise Error(f"fit: column {name!r} holds arrays: it must be the only feature: features={name!r}")
        if not arrays and kinds[name] not in NUMBERS and not kinds[name].startswith("decimal") and kinds[name] != "string":
            raise Error(f"fit: column {name!r} is {kinds[name]}: expected numbers, text or arrays. Choose: features=[…]")
    numbers = kinds[target] != "string" and (kinds[target] not in WHOLE or loss in ("mse", "mae", "huber"))
    scaled = _scales(table, [*names, target], kinds, standardize)
    inputs = [Column(name) if arrays else Column(name, *_of(table, name, kinds, scaled)) for name in names]
    if numbers:
        _, mean, deviation = _of(table, target, kinds, scaled)
        return Columns(inputs, Column(target, [], mean, deviation), True, False, arrays, shape if arrays else ()), table
    whole = kinds[target] in WHOLE
    classes = _distinct(table, target, whole)
    return Columns(inputs, Column(target, classes), False, whole, arrays, shape if arrays else ()), table


def _scales(table: Any, names: Sequence[str], kinds: Dict[str, str], standardize: bool) -> Dict[str, Tuple[float, float]]:
    """Mean and deviation of the columns of numbers, in one pass; rows that lack a value are refused."""
    functions = _jobs.needed("pyspark.sql.functions", "spark")
    wanted = [functions.count(functions.lit(1)).alias("rows")]
    numbers = [name for name in names if kinds[name] in NUMBERS or kinds[name].startswith("decimal")]
    for place, name in enumerate(names):
        wanted.append(functions.sum(functions.col(f"`{name}`").isNull().cast("int")).alias(f"null{place}"))
    for place, name in enumerate(numbers):
        value = functions.col(f"`{name}`").cast("double")
        wanted += [functions.avg(value).alias(f"mean{place}"), functions.stddev_pop(value).alias(f"deviation{place}")]
    row = table.agg(*wanted).collect()[0]
    if row["rows"] == 0:
        raise Error("fit: the table is empty")
    for place, name in enumerate(names):
        if row[f"null{place}"]:
            raise Error(f"fit: {row[f'null{place}']} rows have no value in column {name!r}: fill or drop them, as df.na.fill and "
                        "df.na.drop do")  # fmt: skip
    found = {}
    for place, name in enumerate(numbers):
        found[name] = (float(row[f"mean{place}"]), float(row[f"deviation{place}"]) or 1.0) if standardize else (0.0, 1.0)
    return found


def _of(table: Any, name: str, kinds: Dict[str, str], scaled: Dict[str, Tuple[float, float]]) -> Tuple[List[str], float, float]:
    return ([], *scaled[name]) if name in scaled else (_distinct(table, name, False), 0.0, 1.0)


def _distinct(table: Any, name: str, whole: bool) -> List[str]:
    values = [row[0] for row in table.select(f"`{name}`").distinct().limit(MOST_CATEGORIES + 1).collect()]
    if len(values) > MOST_CATEGORIES:
        raise Error(f"fit: column {name!r} has more than {MOST_CATEGORIES} different values: too many for categories")
    return [str(int(value)) for value in sorted(values)] if whole else sorted(values)
