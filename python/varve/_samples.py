"""Samples of Python objects as arrays of one type and shape, and tables as arrays."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from ._core import Error

Kind = Tuple[Tuple[int, ...], str]  # shape and type of a part of a sample


def array_of(value: Any) -> Any:
    """Anything that NumPy understands, and PyTorch's tensors wherever they are."""
    import numpy

    if hasattr(value, "detach") and hasattr(value, "cpu"):
        value = value.detach().cpu()
    return numpy.asarray(value)


def _integers(array: Any, part: str) -> Any:
    import numpy

    if array.dtype.itemsize > 4 or array.dtype == numpy.uint32:
        limits = numpy.iinfo("int32")
        if array.size and (array.max() > limits.max or array.min() < limits.min):
            raise Error(f"dataset: the {part} holds {array.max()}: more than fits into 32 bits.")
    return array.astype("int32")


def input_array(value: Any) -> Any:
    """As the library delivers inputs: bytes over 255 with an axis for the channel, other integers as i32, the rest f32."""
    import numpy

    array = array_of(value)
    if array.dtype == numpy.uint8:
        pixels = array.astype("float32") / numpy.float32(255)
        return pixels[..., None] if pixels.ndim == 2 else pixels
    if array.dtype.kind in "iu":
        return _integers(array, "input")
    return _floats(array, "input")


def target_array(value: Any) -> Any:
    """As the library delivers targets: integers are classes, the rest is f32."""
    array = array_of(value)
    if array.dtype.kind in "iub":
        classes = _integers(array, "target")
        return classes.reshape(()) if classes.shape == (1,) else classes
    numbers = _floats(array, "target")
    return numbers.reshape((1,)) if numbers.shape == () else numbers


def _floats(array: Any, part: str) -> Any:
    import numpy

    try:
        return numpy.ascontiguousarray(array, "float32").reshape(array.shape)
    except (TypeError, ValueError):
        raise Error(f"dataset: the {part} is an array of {array.dtype.name}; expected numbers.") from None


def _pair(sample: Any, index: int, keys: Optional[Sequence[str]]) -> Tuple[Any, Any]:
    if isinstance(sample, Mapping):
        names = list(keys or sample)
        if len(names) == 2 and all(name in sample for name in names):
            return sample[names[0]], sample[names[1]]
        raise Error(
            f"dataset: sample {index} is a dict of {', '.join(map(str, sample)) or 'nothing'}; expected an input and a target. "
            "Name the two: dataset(samples, keys=(input, target))."
        )
    if isinstance(sample, (tuple, list)) and len(sample) == 2:
        return sample[0], sample[1]
    what = f"{type(sample).__name__} of {len(sample)}" if isinstance(sample, (tuple, list)) else type(sample).__name__
    raise Error(f"dataset: sample {index} is not a pair (input, target), but a {what}.")


class Reader:
    """Samples by number. It is what a worker process gets: its samples must then be picklable."""

    def __init__(self, samples: Any, keys: Optional[Sequence[str]] = None) -> None:
        self.samples, self.keys, self.size = samples, keys, len(samples)
        if self.size == 0:
            raise Error("dataset: it has no samples.")
        x, y = self.arrays(0)
        self.x: Kind = (x.shape, x.dtype.name)
        self.y: Kind = (y.shape, y.dtype.name)

    def arrays(self, index: int) -> Tuple[Any, Any]:
        import numpy

        try:
            x, y = _pair(self.samples[index], index, self.keys)
            return numpy.ascontiguousarray(input_array(x)), numpy.asarray(target_array(y), order="C")
        except Error:
            raise
        except Exception as error:
            raise Error(f"dataset: sample {index}: {type(error).__name__}: {error}") from error

    def read(self, index: int) -> Tuple[Any, Any]:
        """The arrays of a sample, which must be as those of the first."""
        x, y = self.arrays(index)
        for part, array, (shape, dtype) in (("input", x, self.x), ("target", y, self.y)):
            if array.shape != shape:
                raise Error(f"dataset: the {part} of sample {index} has shape {list(array.shape)}, the first has {list(shape)}.")
            if array.dtype.name != dtype:
                raise Error(f"dataset: the {part} of sample {index} is {array.dtype.name}, the first is {dtype}.")
        return x, y


def _named(part: Any, names: Sequence[str]) -> List[Tuple[str, Any]]:
    """The fields of an input or a target: a dict's, a tuple's by place, or one alone."""
    if isinstance(part, Mapping):
        wanted = list(names) or list(part)
        for name in wanted:
            if name not in part:
                raise Error(f"dataset: a sample has no field '{name}': it has {', '.join(map(str, part)) or 'none'}.")
        return [(str(name), part[name]) for name in wanted]
    if isinstance(part, (tuple, list)) and part and all(hasattr(each, "shape") for each in part):
        return [("", each) for each in part]
    return [("", part)]


def has_fields(samples: Any, keys: Optional[Sequence[Any]]) -> bool:
    """Whether samples have several inputs or targets: dicts of them, or tuples of arrays."""
    if keys is not None and any(not isinstance(key, str) for key in keys):
        return True
    try:
        sample = samples[0]
    except Exception:  # what is wrong is said when it is read as a sample
        return False
    pair = sample if isinstance(sample, (tuple, list)) and len(sample) == 2 else ()
    several = [isinstance(p, Mapping) or isinstance(p, tuple) and bool(p) and all(hasattr(e, "shape") for e in p) for p in pair]
    return any(several)


class FieldReader:
    """Samples of several inputs or targets by number."""

    def __init__(self, samples: Any, keys: Optional[Sequence[Any]] = None) -> None:
        self.samples, self.keys, self.size = samples, keys, len(samples)
        self.names: Tuple[List[str], List[str]] = ([], [])
        self.kinds: List[Kind] = []
        inputs, targets = self._parts(0)
        self.names = ([name for name, _ in inputs], [name for name, _ in targets])
        self.kinds = [(array.shape, array.dtype.name) for _, array in inputs + targets]
        fields = [(name, *kind) for name, kind in zip(self.names[0] + self.names[1], self.kinds)]
        self.inputs, self.targets = fields[: len(inputs)], fields[len(inputs) :]

    def _parts(self, index: int) -> Tuple[List[Tuple[str, Any]], List[Tuple[str, Any]]]:
        import numpy

        try:
            sample = self.samples[index]
            if isinstance(sample, Mapping):
                if self.keys is None:
                    raise Error(f"dataset: sample {index} is a dict: name its fields, dataset(samples, keys=([inputs], [targets])).")
                ours, theirs = ([key] if isinstance(key, str) else list(key) for key in self.keys)
                x, y = _named(sample, ours), _named(sample, theirs)
            else:
                first, second = _pair(sample, index, None)
                x, y = _named(first, self.names[0] if isinstance(first, Mapping) else ()), _named(second, self.names[1])
            return (
                [(name, numpy.ascontiguousarray(input_array(value))) for name, value in x],
                [(name, numpy.asarray(target_array(value), order="C")) for name, value in y],
            )
        except Error:
            raise
        except Exception as error:
            raise Error(f"dataset: sample {index}: {type(error).__name__}: {error}") from error

    def read(self, index: int) -> List[Any]:
        """The arrays of a sample, inputs and then targets, which must be as those of the first."""
        inputs, targets = self._parts(index)
        if len(inputs) != len(self.inputs) or len(targets) != len(self.targets):
            raise Error(f"dataset: sample {index} has {len(inputs)} inputs and {len(targets)} targets, the first has {len(self.inputs)} and {len(self.targets)}.")
        arrays = [array for _, array in inputs + targets]
        for (name, *_), array, (shape, dtype) in zip(self.inputs + self.targets, arrays, self.kinds):
            if array.shape != shape or array.dtype.name != dtype:
                raise Error(
                    f"dataset: '{name}' of sample {index} is {array.dtype.name} {list(array.shape)}, the first is {dtype} {list(shape)}."
                )
        return arrays


def fields_of(part: Any) -> Optional[List[Tuple[str, Any]]]:
    """Arrays of several fields, with names where they are a dict; None when it is one array."""
    if isinstance(part, Mapping):
        return [(str(name), array_of(value)) for name, value in part.items()]
    if isinstance(part, tuple) and part and all(hasattr(each, "shape") and len(each.shape) > 0 for each in part):
        return [("", array_of(value)) for value in part]
    return None


class Mapped:
    """Samples of a data set, each through a function of (input, target)."""

    def __init__(self, samples: Any, function: Any) -> None:
        self.samples, self.function = samples, function

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        x, y = self.samples[index]
        return self.function(array_of(x), array_of(y))


def columns_of(table: Any) -> Optional[Dict[str, Any]]:
    """The columns of a pandas, Arrow or polars table, or of a dict of them; None when it is something else."""
    if hasattr(table, "column_names") and hasattr(table, "column"):  # Arrow
        return {name: table.column(name).to_numpy() for name in table.column_names}
    if hasattr(table, "columns") and (hasattr(table, "iloc") or hasattr(table, "get_column")):  # pandas, polars
        return {str(name): table[name].to_numpy() for name in table.columns}
    if isinstance(table, Mapping):
        return {str(name): array_of(values) for name, values in table.items()}
    return None


def is_text(column: Any) -> bool:
    return column.dtype.kind in "OUS" and not _is_numeric_object(column)


def _is_numeric_object(column: Any) -> bool:
    return column.dtype.kind == "O" and all(isinstance(value, (int, float)) for value in column)


def csv_text(columns: Dict[str, Any]) -> str:
    import csv
    import io

    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values()))
    return text.getvalue()


def classes_of(values: Any) -> Tuple[Any, List[str]]:
    """Text as the number of its class, in alphabetical order, and the classes."""
    import numpy

    names, numbers = numpy.unique(numpy.asarray(values).astype(str), return_inverse=True)
    return numbers.reshape(-1).astype("int32"), [str(name) for name in names]
