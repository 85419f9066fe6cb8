"""`varve bench` through Python: the adapter answers every task, with the network that the C++ worker trains."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import varve as vv

ADAPTER = Path(__file__).parents[2] / "bench" / "adapters" / "varve_adapter.py"
WORKLOAD = {"name": "fnn-mnist", "family": "mlp", "hidden": [512, 512], "activation": "relu", "zoo": "fnn-mnist", "sizes": {},
            "input": [28, 28, 1], "dtype": "f32", "classes": 10, "targets": "classes", "dropout_rate": 0.0,
            "optimizer": {"name": "adam", "rate": 0.001}}  # fmt: skip


def ask(folder: Path, **changes: Any) -> dict[str, Any]:
    request = {"schema": 1, "framework": "varve-python", "mode": "plain", "workload": WORKLOAD, "batch": 4, "threads": 1,
               "precision": "f32", "device": "cpu", "seed": 0, "warmup": {"steps": 1, "seconds": 0}, "samples": 2,
               "min_seconds": 0, "max_seconds": 5, "result": str(folder / "answer.json"), **changes}  # fmt: skip
    (folder / "request.json").write_text(json.dumps(request))
    words = [sys.executable, str(ADAPTER), str(folder / "request.json")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert (folder / "answer.json").exists(), done.stderr
    answer: dict[str, Any] = json.loads((folder / "answer.json").read_text())
    return answer


@pytest.mark.parametrize("task, fields", [
    ("step", ["samples_ms", "loss", "first_ms"]), ("infer", ["samples_ms"]),
    ("parts", ["forward_ms", "gradient_ms", "update_ms", "data_ms"])])  # fmt: skip
def test_tasks_are_timed(tmp_path: Path, task: str, fields: list[str]) -> None:
    answer = ask(tmp_path, task=task)
    assert answer["status"] == "ok", answer["reason"]
    assert answer["parameters"] == 669706 and answer["version"] == vv.__version__
    assert all(answer[field] for field in fields), answer


def test_training_learns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 10, 200).astype(np.int32)
    x = np.zeros((200, 28, 28, 1), np.float32)
    x[np.arange(200), y] = 1  # the class is the bright row
    arrays = {f"{name}_{part}": value for part in ("train", "validation", "test") for name, value in (("x", x), ("y", y))}
    vv.save(str(tmp_path / "data.safetensors"), arrays)
    answer = ask(tmp_path, task="train", data=str(tmp_path / "data.safetensors"), epochs=3, batch=20)
    assert answer["status"] == "ok", answer["reason"]
    assert answer["epochs"][2]["loss"] < answer["epochs"][0]["loss"] and answer["test_accuracy"] > 0.9


def test_what_cannot_be_done_is_said(tmp_path: Path) -> None:
    optimizer = {**WORKLOAD, "optimizer": {"name": "lion", "rate": 0.1}}
    answer = ask(tmp_path, task="step", workload=optimizer)
    assert answer["status"] == "unsupported" and "lion" in answer["reason"]
    assert ask(tmp_path, task="step", precision="tf32")["status"] == "unsupported"
