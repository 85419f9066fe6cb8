"""Signals, threads and processes: Ctrl-C, the interpreter's lock, fork and spawn."""

import os
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import varve as vv
from varve import data, nn

HERE = os.path.dirname(__file__)
ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([HERE, os.environ.get("PYTHONPATH", "")])}

PREAMBLE = """
import os, signal, sys, threading, time
import numpy as np
import varve as vv
from varve import data, nn, optim, train

def after(seconds, number=signal.SIGINT):
    threading.Timer(seconds, lambda: os.kill(os.getpid(), number)).start()

class Endless:  # 20 s an epoch
    def __init__(self, seconds=0.01): self.seconds = seconds
    def __len__(self): return 2000
    def __getitem__(self, i):
        time.sleep(self.seconds)
        return np.float32([i % 7, 1]), i % 2

x, y = np.random.default_rng(0).normal(size=(4096, 64)).astype("float32"), np.arange(4096) % 2
model = nn.Sequential(nn.Dense(64, activation="relu"), nn.Dense(2))
"""


def program(code, status=0, timeout=120):
    done = subprocess.run([sys.executable, "-c", PREAMBLE + code], capture_output=True, text=True, timeout=timeout, env=ENVIRONMENT)
    assert done.returncode == status, (done.returncode, done.stdout, done.stderr)
    return done.stdout


# ---- Ctrl-C


WORK = {
    "fit": "model.fit(x, y, epochs=10**6, verbosity='quiet')",
    "fit with progress": "model.fit(x, y, epochs=10**6, verbosity='lines', progress=lambda line, kept: None)",
    "fit that waits for data": "pair.fit(Endless(), epochs=9, batch=500, verbosity='quiet')",
    "fit that reads data": "pair.fit(Endless(), epochs=9, batch=10, workers=0, verbosity='quiet')",
    "fit with a schedule": "model.fit(x, y, epochs=10**6, schedule=lambda p: 1.0, verbosity='quiet')",
    "fit with a callback": "model.fit(x, y, epochs=10**6, callbacks=[train.each_step(lambda s: s.loss)], verbosity='quiet')",
    "validation": "pair.fit(Endless(0), epochs=1, batch=2000, validation=Endless(), verbosity='quiet')",
    "evaluate": "pair.evaluate(Endless(), batch=500)",
    "predict": "pair.predict(Endless(), batch=500)",
    "lr_find": "model.lr_find(x, y, steps=10**6, start=1e-7, stop=2e-7)",
    "a loader": "list(data.DataLoader(Endless(), batch=500))",
    "the worst samples": "train.worst(pair, Endless())",
    "reading all": "data.dataset(Endless()).arrays()",
    "a compiled loop": "loop()",
}


def test_ctrl_c_reaches_python_from_whatever_is_done():
    """The interrupt comes 0.25 s after each has begun, and it ends within 2.5 s, which a whole batch of data would not."""
    works = ", ".join(f"{name!r}: lambda: {code}" for name, code in WORK.items())
    out = program(f"""
pair = nn.Sequential(nn.Dense(8), nn.Dense(2))
step = vv.compile(lambda v: v @ v * 0.99)
def loop():
    v = vv.normal((64, 64))
    while True:
        v = step(v).eval()

for name, work in {{{works}}}.items():
    try:
        begin = time.perf_counter()
        after(0.25)
        work()
        print(name, "was not interrupted")
    except KeyboardInterrupt:
        print(name, 0.2 < time.perf_counter() - begin < 2.5)
""")
    assert out.splitlines() == [f"{name} True" for name in WORK]


def test_an_interrupted_run_goes_on_as_if_nothing_had_been(tmp_path):
    out = program(f"""
slow = train.each_step(lambda s: time.sleep(0.002))
options = dict(epochs=4, batch=64, seed=5, verbosity="quiet", run={str(tmp_path / "run")!r}, callbacks=[slow])
after(0.4)
try:
    model.fit(x, y, **options)
except KeyboardInterrupt as error:
    print("interrupted", error.history.interrupted, 0 < len(error.history.epochs) < 4 or error.history.seconds > 0)
again = nn.Sequential(nn.Dense(64, activation="relu"), nn.Dense(2))
resumed = again.fit(x, y, resume=True, **options)
whole = nn.Sequential(nn.Dense(64, activation="relu"), nn.Dense(2))
del options["run"]
straight = whole.fit(x, y, **options)
print([e["loss"] for e in resumed.epochs] == [e["loss"] for e in straight.epochs])
print(again.state_dict()["0.weight"].numpy().tobytes() == whole.state_dict()["0.weight"].numpy().tobytes())
""")
    assert out == "interrupted True True\nTrue\nTrue\n"


def test_a_handler_of_the_users_is_called_and_decides():
    out = program("""
seen = []
signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
after(0.3)
history = model.fit(x, y, epochs=3, callbacks=[train.each_step(lambda s: time.sleep(0.002))], verbosity="quiet")
print(seen == [signal.SIGINT], len(history.epochs), history.interrupted)

class Enough(Exception): pass
def stop(number, frame): raise Enough("by a handler")
signal.signal(signal.SIGUSR1, stop)
signal.signal(signal.SIGALRM, stop)
signal.setitimer(signal.ITIMER_REAL, 0.5)
try:
    model.fit(x, y, epochs=10**6, verbosity="quiet")
except Enough as error:
    print(error, error.history.interrupted)
""")
    assert out == "True 3 False\nby a handler True\n"


def test_sigterm_is_left_alone():
    program("after(0.5, signal.SIGTERM)\nmodel.fit(x, y, epochs=10**6, verbosity='quiet')", status=-15)
    out = program("""
signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(7))
after(0.5, signal.SIGTERM)
try:
    model.fit(x, y, epochs=10**6, verbosity='quiet')
except SystemExit as error:
    print("exit", error.code)
""")
    assert out == "exit 7\n"


def test_fit_in_a_thread_leaves_signals_to_the_main_one():
    out = program("""
ended = []
def work():
    ended.append(model.fit(x, y, epochs=8, callbacks=[train.each_epoch(lambda s: time.sleep(0.05))], verbosity="quiet"))
thread = threading.Thread(target=work)
thread.start()
after(0.3)
try:
    time.sleep(30)
except KeyboardInterrupt:
    print("main interrupted")
thread.join()
print(len(ended[0].epochs))
""")
    assert out == "main interrupted\n8\n"


# ---- the interpreter's lock


def counted(work):
    """How often another thread of Python came to work meanwhile, and how long it took."""
    count, stop = [0], threading.Event()

    def other():
        while not stop.is_set():
            count[0] += 1
            time.sleep(0.001)

    thread = threading.Thread(target=other)
    thread.start()
    count[0] = 0
    begin = time.perf_counter()
    try:
        work()
    finally:
        seconds, done = time.perf_counter() - begin, count[0]
        stop.set()
        thread.join()
    return done, seconds


def test_the_lock_is_released_in_all_work(tmp_path):
    x = np.random.default_rng(0).normal(size=(20000, 64)).astype("float32")
    y = np.arange(20000) % 10
    model = nn.Sequential(nn.Dense(256, activation="relu"), nn.Dense(256, activation="relu"), nn.Dense(10))
    model.build(64)
    large = nn.Sequential(nn.Dense(4096))
    large.build(8192)  # 134 MB
    file = str(tmp_path / "large.safetensors")
    for work in (
        lambda: model.fit(x, y, epochs=2, batch=256, verbosity="quiet"),
        lambda: model.evaluate(x, y),
        lambda: model.predict(x),
        lambda: (vv.normal((1200, 1200)) @ vv.normal((1200, 1200)) @ vv.normal((1200, 1200))).numpy(),
        lambda: large.save(file),
        lambda: large.load(file),
        lambda: model.lr_find(x, y, steps=100, batch=512),
        lambda: data.digits(train=3000, test=10, seed=7).train.arrays(),
        lambda: [None for _ in data.DataLoader(data.digits(train=3000, test=10, seed=8).train, batch=500)],
    ):
        done, seconds = counted(work)
        assert done > 40 * seconds - 3, (done, seconds)  # 1,000 a second when nobody else wants the processors


def test_two_threads_fit_two_models_with_python_parts():
    def own_loss(output, target):
        return vv.mean((output - target) ** 2)

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(vv.ones(4))

        def forward(self, x):
            return x * self.scale

    x = np.ones((256, 4), "float32")
    histories = []

    def work():
        model = nn.Sequential(Scale(), nn.Dense(1))
        histories.append(model.fit([(row, [1.0]) for row in x], loss=own_loss, epochs=3, batch=32, verbosity="quiet"))

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(histories) == 3 and len({h.epochs[-1]["loss"] for h in histories}) == 1


# ---- fork and spawn


def test_children_of_a_program_in_its_middle_train_too():
    out = program("""
import multiprocessing
model.fit(x, y, epochs=1, verbosity="quiet")

def work(queue):
    mine = nn.Sequential(nn.Dense(8), nn.Dense(2))
    queue.put(mine.fit(x, y, epochs=1, seed=3, verbosity="quiet").epochs[0]["loss"])

context = multiprocessing.get_context("fork")
queue = context.Queue()
children = [context.Process(target=work, args=(queue,)) for _ in range(2)]
for child in children: child.start()
losses = [queue.get(timeout=60) for _ in children]
for child in children: child.join()
mine = nn.Sequential(nn.Dense(8), nn.Dense(2))
print(len(set(losses)), losses[0] == mine.fit(x, y, epochs=1, seed=3, verbosity="quiet").epochs[0]["loss"])
""")
    assert out == "1 True\n"


def test_a_spawned_child_gets_a_model(tmp_path):
    (tmp_path / "spawned.py").write_text("""
import multiprocessing
import numpy as np
from varve import nn

def predict(model, x):
    return model.predict(x).tolist()

if __name__ == "__main__":
    model, x = nn.Sequential(nn.Dense(3)), np.ones((2, 4), "float32")
    mine = predict(model, x)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.apply(predict, (model, x)) == mine)
""")
    done = subprocess.run([sys.executable, "spawned.py"], cwd=tmp_path, capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert done.stdout == "True\n", done.stderr


# ---- progress


def test_progress_goes_where_standard_error_goes(capsys, monkeypatch):
    x, y = np.ones((64, 2), "float32"), np.arange(64) % 2
    nn.Sequential(nn.Dense(2)).fit(x, y, epochs=2)
    assert [line[:9] for line in capsys.readouterr().err.splitlines()] == ["epoch 1/2", "epoch 2/2"]
    monkeypatch.setattr(sys, "stderr", None)  # as pythonw has it
    nn.Sequential(nn.Dense(2)).fit(x, y)


def test_progress_in_a_pipe_is_lines():
    code = PREAMBLE + "model.fit(x, y, epochs=2)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, env=ENVIRONMENT)
    assert done.stdout == "" and [line[:9] for line in done.stderr.splitlines()] == ["epoch 1/2", "epoch 2/2"]
