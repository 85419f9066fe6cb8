"""The process that measures: its CPUs, its threads, its memory and its energy."""

from __future__ import annotations

import os
from pathlib import Path


def pin(threads: int) -> None:
    """Confines this process to as many CPUs, on cores of their own as far as there are enough."""
    allowed = sorted(os.sched_getaffinity(0))

    def place_in_core(cpu: int) -> tuple[int, int]:
        try:
            text = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text()
        except OSError:
            return 0, cpu
        first, *rest = (int(number) for number in text.replace("-", ",").split(",") if number.strip())
        return int(cpu != first), cpu

    os.sched_setaffinity(0, sorted(allowed, key=place_in_core)[: max(1, threads)])
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)


def spread_workers() -> None:
    """Gives each of the busiest threads but the main one a CPU of its own.

    Linux wakes the workers of a pool that sleeps between operators where they last ran, and leaves two on one CPU for
    whole seconds: the same program then takes twice the time in one run and not in the next.
    """
    cpus, busy = sorted(os.sched_getaffinity(0)), []
    for task in Path("/proc/self/task").iterdir():
        fields = (task / "stat").read_text().rpartition(")")[2].split()
        busy.append((int(fields[11]) + int(fields[12]), int(task.name)))  # time in user and in kernel mode
    workers = sorted((each for each in busy if each[1] != os.getpid()), reverse=True)
    for cpu, (_, thread) in zip(cpus, workers):
        os.sched_setaffinity(thread, {cpu})


def resident_peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


class Energy:
    """What the processor's packages use, from the kernel's counters; None where they cannot be read."""

    def __init__(self) -> None:
        self._zones = [z for z in Path("/sys/class/powercap").glob("intel-rapl:*") if z.name.count(":") == 1]
        self._start = self._read()

    def _read(self) -> list[tuple[int, int]] | None:
        try:
            return [(int((z / "energy_uj").read_text()), int((z / "max_energy_range_uj").read_text()))
                    for z in self._zones]
        except (OSError, ValueError):
            return None

    def joules(self) -> float | None:
        end = self._read()
        if not self._start or not end:
            return None
        return sum((now - then) % wrap for (then, wrap), (now, _) in zip(self._start, end)) / 1e6
