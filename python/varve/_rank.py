"""One rank that Ray or Spark has started: `python -m varve._rank FOLDER`. The folder has what to do; answers go there too."""

from __future__ import annotations

import json
import os
import pickle
import sys
import threading
import time
import traceback
from typing import Any, Dict, List, Optional


def _leave_with_parent() -> None:
    """Whoever started this process holds the other end of its input: where that is gone, nobody waits for the answer."""
    while os.read(0, 4096):
        pass
    os._exit(143)


def _array(path: str) -> Any:
    import numpy

    with open(path, "rb") as file:
        numpy.lib.format.read_magic(file)
        shape, _, _ = numpy.lib.format.read_array_header_1_0(file)
    return numpy.asarray(numpy.load(path, mmap_mode="r" if 0 not in shape else None))


def _samples(given: Optional[Dict[str, Any]]) -> Any:
    """The data set of arrays that lie in files; of this rank's part, where the others have theirs."""
    if given is None:
        return None
    from . import _core

    table = None
    if given["inputs"]:
        columns = [_core.TableColumn(*each) for each in given["inputs"]]
        table = _core.TableEncoder(columns, _core.TableColumn(*given["target"]))
    made = _core._dataset_of_arrays(_array(given["x"]), _array(given["y"]), given["name"], given["classes"], table)
    return _core._part(made) if given["part"] else made


def _run_of(job: Dict[str, Any]) -> Dict[str, Any]:
    """The run's folder, gone on with where it has a checkpoint, if that is wanted. The first rank alone writes there; the others
    name it, to measure the same."""
    checkpoint = os.path.join(job["run"], "last.safetensors")
    return {"verbosity": job["verbosity"], "run": job["run"], "resume": job["resume"] and os.path.exists(checkpoint)}


def _train(job: Dict[str, Any]) -> Any:
    from . import train

    samples, validation = _samples(job["samples"]), _samples(job["validation"])
    how = _run_of(job)
    if job["kind"] == "config":
        config = train.config_from_toml(job["text"], job["name"])
        how["folder"] = how.pop("run", "")
        result = train.run(config, samples=samples, validation_samples=validation, download=job["download"], **how)
        return {"test": dict(result.test), "tested": result.tested}
    what, arguments, options = pickle.loads(job["payload"])
    if job["kind"] == "model":
        if validation is not None:
            options["validation"] = validation
        what.fit(samples, **{**how, **options})
        shape, dtype = what.input
        return {"shape": tuple(shape), "dtype": str(dtype).split(".")[-1]}
    if samples is not None:
        options["samples"] = samples
    if validation is not None:
        options["validation"] = validation
    return what(*arguments, **options)


def main(arguments: List[str]) -> int:
    folder = arguments[0]
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    with open(os.path.join(folder, "job.pkl"), "rb") as file:
        job = pickle.load(file)
    sys.path += [each for each in job["path"] if each not in sys.path]
    code = 0
    try:
        answer = pickle.dumps(_train(job))
        with open(os.path.join(folder, "answer.pkl"), "wb") as file:
            file.write(answer)
    except BaseException as error:
        text = {"time": time.time(), "text": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        with open(os.path.join(folder, "error.json"), "w") as out:
            json.dump(text, out)
        code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
