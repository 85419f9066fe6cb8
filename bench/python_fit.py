"""How long `fit` takes from Python, compared with the command line: the same network, the same arrays, the same seed, in turns.

    PYTHONPATH=build/python build/python-venv/bin/python bench/python_fit.py build/varve [turns] [threads]

Both train fnn-mnist on 20,000 drawn digits. The processor's time of the whole program less that of one that trains nothing is
compared, which says more on a busy machine than the clock; both are printed. The losses must be equal, or it is not the same
work.
"""

from __future__ import annotations

import csv
import os
import pathlib
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from typing import Dict, List, Tuple

EPOCHS = 4
PROGRAM = """
import sys
import numpy as np
import varve as vv
from varve import nn, optim, train, zoo
vv.set_threads(int(sys.argv[3]))
arrays = np.load("digits.npz")
model = zoo.make("fnn-mnist")
history = model.fit(arrays["x_train"], arrays["y_train"], optimizer=optim.Adam(1e-3), schedule="cosine", batch=80,
                    epochs=int(sys.argv[2]), run=sys.argv[1], verbosity="quiet")
"""


def measured(command: List[str]) -> Tuple[float, float]:
    """Seconds of the processor, and of the clock."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, time.perf_counter() - begin


def last_loss(folder: pathlib.Path) -> float:
    with open(next(folder.glob("**/results.csv"))) as file:
        return float(list(csv.DictReader(file))[-1]["loss"])


def main() -> None:
    varve = os.path.abspath(sys.argv[1])
    turns, threads = int(sys.argv[2]) if len(sys.argv) > 2 else 7, sys.argv[3] if len(sys.argv) > 3 else "1"
    os.environ["PYTHONPATH"] = os.path.abspath(os.environ.get("PYTHONPATH", ""))
    from varve import data
    import numpy as np

    with tempfile.TemporaryDirectory() as name:
        os.chdir(name)
        digits = data.digits(train=20000, test=100)
        (x, y), (x_test, y_test) = digits.train.arrays(), digits.test.arrays()
        np.savez("digits.npz", x_train=x.numpy(), y_train=y.numpy(), x_test=x_test.numpy(), y_test=y_test.numpy())
        spent: Dict[str, List[Tuple[float, float]]] = {"command line": [], "python": []}
        losses = set()
        for turn in range(turns):
            for who in spent:
                net = [0.0, 0.0]
                for epochs, sign in ((1, -1), (1 + EPOCHS, 1)):
                    folder = pathlib.Path(f"{who[0]}{turn}-{epochs}")
                    if who == "python":
                        command = [sys.executable, "-c", PROGRAM, str(folder), str(epochs), threads]
                    else:
                        command = [varve, "train", "fnn-mnist", "data=npz:digits.npz", "validation=0", f"epochs={epochs}",
                                   f"threads={threads}", f"runs={folder}", "--quiet"]  # fmt: skip
                    seconds = measured(command)
                    net = [net[0] + sign * seconds[0], net[1] + sign * seconds[1]]
                losses.add(round(last_loss(folder), 6))
                spent[who].append((net[0] / EPOCHS, net[1] / EPOCHS))
        for at, what in enumerate(("processor", "clock")):
            middle = {who: statistics.median(each[at] for each in times) for who, times in spent.items()}
            ours, theirs = middle["python"], middle["command line"]
            print(f"{what}: an epoch takes {theirs:.3f} s from the command line, {ours:.3f} s from Python: ratio {ours / theirs:.3f}")
        print("the same work" if len(losses) == 1 else f"NOT the same work: losses {sorted(losses)}")


if __name__ == "__main__":
    main()
