"""Columns of a distributed table as samples: how numbers are scaled and which categories there are is found once, for the whole
table, and goes to every worker and with the model."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

from ._core import Error


class Column(NamedTuple):
    """As `data.TableColumn`: text is a number for each category, numbers are (value - mean) / deviation."""

    name: str
    categories: List[str] = []
    mean: float = 0.0
    deviation: float = 1.0


class Columns(NamedTuple):
    """Inputs and target. A single input of arrays (`shape`) is taken as it is."""

    inputs: List[Column]
    target: Column
    numbers: bool  # targets are numbers, not classes
    whole: bool = False  # classes are whole numbers
    arrays: bool = False
    shape: Tuple[int, ...] = ()

    def x(self, columns: Dict[str, Any]) -> Any:
        """Samples of the rows, from a NumPy array for each column."""
        import numpy

        if self.arrays:
            values = columns[self.inputs[0].name]
            rows = numpy.stack([numpy.asarray(value, "float32") for value in values]) if len(values) else numpy.zeros((0, 0), "float32")
            if not self.shape:
                return rows
            if rows.shape[1:] != self.shape and len(rows) and rows[0].size != numpy.prod(self.shape):
                raise Error(f"column {self.inputs[0].name!r}: expected arrays of {numpy.prod(self.shape)} numbers for samples of shape "
                            f"{list(self.shape)}, got {rows[0].size}")  # fmt: skip
            return rows.reshape(len(rows), *self.shape)
        parts = [_encoded(columns[column.name], column) for column in self.inputs]
        return numpy.concatenate(parts, axis=1)

    def y(self, columns: Dict[str, Any]) -> Any:
        import numpy

        values = columns[self.target.name]
        if self.numbers:
            return _encoded(values, self.target)
        numbers = {name: number for number, name in enumerate(self.target.categories)}
        labels = [_label(value) for value in values]
        unknown = next((label for label in labels if label not in numbers), None)
        if unknown is not None:
            raise Error(f"column {self.target.name!r}: class {unknown!r} is none of those in training: {_some(self.target.categories)}")
        return numpy.array([numbers[label] for label in labels], "int32")

    def answers(self, outputs: Any) -> Any:
        """Outputs of the network in the words, or the unit, of the target's column."""
        import numpy

        if self.numbers:
            return outputs[:, 0] * self.target.deviation + self.target.mean
        names = numpy.asarray(self.target.categories, object)
        chosen = (outputs[:, 0] > 0).astype(int) if outputs.shape[1] == 1 else outputs.argmax(1)
        return names[chosen].astype("int64") if self.whole else names[chosen]


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def _label(value: Any) -> str:
    return value if isinstance(value, str) else str(int(value))


def _encoded(values: Any, column: Column) -> Any:
    import numpy

    if not column.categories:
        given = numpy.asarray(values, "float64")
        if numpy.isnan(given).any():
            raise Error(f"column {column.name!r}: a row has no value: fill or drop such rows, as df.na.fill and df.na.drop do")
        numbers = (given - column.mean) / column.deviation
        return numbers.astype("float32")[:, None]
    places = {name: place for place, name in enumerate(column.categories)}
    hot = numpy.zeros((len(values), len(places)), "float32")
    for row, value in enumerate(values):
        if value not in places:
            raise Error(f"column {column.name!r}: {value!r} was not there in training; known are {_some(column.categories)}")
        hot[row, places[value]] = 1
    return hot


def joined(parts: Sequence[Tuple[Any, Any]], columns: Columns) -> Tuple[Any, Any]:
    """Samples of several batches of rows as two arrays; of none, two that are empty."""
    import numpy

    if parts:
        return numpy.concatenate([x for x, _ in parts]), numpy.concatenate([y for _, y in parts])
    width = sum(len(column.categories) or 1 for column in columns.inputs)
    shape = columns.shape if columns.arrays else (width,)
    return numpy.zeros((0, *shape), "float32"), numpy.zeros((0, 1) if columns.numbers else (0,), "float32" if columns.numbers else "int32")
