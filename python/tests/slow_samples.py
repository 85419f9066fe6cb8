"""Data sets that worker processes of the tests can import."""

import os
import time

import numpy as np


class Slow:
    """Pure samples; each takes a while."""

    def __init__(self, size=48, seconds=0.0):
        self.size, self.seconds = size, seconds

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return np.random.default_rng(index).normal(size=(3, 4)), index % 5


class WithProcess(Slow):
    """Says which process read it."""

    def __getitem__(self, index):
        time.sleep(0.002)
        return np.full(2, index, "float32"), os.getpid()


class Fails(Slow):
    def __getitem__(self, index):
        if index == 7:
            raise KeyError("no such file")
        return super().__getitem__(index)


class Dies(Slow):
    """Ends its process the hard way, as the system does when memory runs out; not in the process that made it."""

    def __init__(self):
        super().__init__()
        self.parent = os.getpid()

    def __getitem__(self, index):
        if index == 9 and os.getpid() != self.parent:
            os.kill(os.getpid(), 9)
        return super().__getitem__(index)


class Hangs(Slow):
    def __init__(self):
        super().__init__()
        self.parent = os.getpid()

    def __getitem__(self, index):
        if index > 3 and os.getpid() != self.parent:
            time.sleep(3600)
        return super().__getitem__(index)
