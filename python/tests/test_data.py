"""Data sets of everything that Python has, transforms, and batches read by threads and by processes."""

import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
import slow_samples

import varve as vv
from varve import data, nn

ENVIRONMENT = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])}


def values(loader):
    return [(x.numpy().tobytes(), y.numpy().tobytes()) for x, y in loader]


@pytest.fixture(scope="module")
def arrays():
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 3)).astype("float32"), np.arange(40) % 2


# ---- what is a data set


def test_arrays_in_all_their_forms(arrays):
    x, y = arrays
    whole = values(data.DataLoader(data.dataset(x, y), batch=16, seed=3))
    for form in [(x, y), [x, y], {"x": x, "y": y}, [(x[i], y[i]) for i in range(40)], [{"a": x[i], "b": y[i]} for i in range(40)]]:
        assert values(data.DataLoader(form, batch=16, seed=3)) == whole
    assert values(data.DataLoader(((x[i], y[i]) for i in range(40)), batch=16, seed=3)) == whole
    assert values(data.DataLoader(lambda: ((x[i], y[i]) for i in range(40)), batch=16, seed=3)) == whole
    assert values(data.DataLoader(data.dataset(vv.tensor(x), vv.tensor(y)), batch=16, seed=3)) == whole
    assert values(data.DataLoader({"y": y, "x": x}, batch=16, seed=3)) != whole
    assert values(data.DataLoader(data.dataset({"y": y, "x": x}, keys=("x", "y")), batch=16, seed=3)) == whole


def test_types_are_delivered_as_the_library_does_it():
    pixels, labels = np.arange(2 * 6, dtype="uint8").reshape(2, 2, 3) * 20, [3, 4]
    one, other = data.dataset(pixels, np.array(labels)), data.dataset([(p, l) for p, l in zip(pixels, labels)])
    assert one.x == other.x == ((2, 3, 1), vv.f32)
    assert np.array_equal(one[1][0].numpy(), other[1][0].numpy()) and one[1][1].item() == other[1][1].item() == 4
    numbers = data.dataset([(np.arange(3), 0.5)])
    assert numbers.x == ((3,), vv.i32) and numbers.y == ((1,), vv.f32)
    with pytest.raises(ValueError, match="32 bits"):
        data.dataset([(np.array([2**40]), 0)])
    with pytest.raises(ValueError, match="expected numbers"):
        data.dataset([(np.array(["text"]), 0)])


def test_what_is_no_data_is_refused_with_what_would_be(arrays):
    x, y = arrays
    with pytest.raises(TypeError, match="target"):
        data.dataset({"a": x, "b": x, "c": y})
    with pytest.raises(TypeError, match="__len__"):
        data.dataset(7)
    with pytest.raises(TypeError, match="no targets"):
        data.dataset(x)
    with pytest.raises(ValueError, match="sample 0 is not a pair .* but a tuple of 3"):
        data.dataset([(1, 2, 3)])
    with pytest.raises(ValueError, match="no samples"):
        data.dataset([])
    with pytest.raises(TypeError, match="train or .test"):
        data.dataset(data.digits(train=10, test=10))
    with pytest.raises(TypeError, match="Did you mean 'shuffle'"):
        data.DataLoader((x, y), shufle=False)
    with pytest.raises(ValueError, match="Did you mean 'price'"):
        data.dataset({"area": [1.0], "price": [2.0]}, "prise")


def test_tables():
    columns = {"area": [50.0, 60.0, 70.0], "rooms": [1, 2, 3], "price": [1.5, 2.5, 3.5]}
    table = data.dataset(columns, "price")
    assert table.x == ((2,), vv.f32) and table.y == ((1,), vv.f32) and table[1][1].tolist() == [2.5]
    mixed = data.dataset({"wall": ["brick", "wood", "brick"], "area": [50.0, 60.0, 70.0], "kind": ["a", "b", "a"]}, "kind")
    assert mixed.classes == ["a", "b"] and mixed[1][0].tolist() == [0.0, 1.0, 60.0]
    assert mixed.table.inputs[0].categories == ["brick", "wood"]


def test_tables_of_pandas():
    pandas = pytest.importorskip("pandas", reason="make test-neighbours installs it")
    frame = pandas.DataFrame({"a": [1.0, 2.0], "b": [3, 4], "kind": pandas.Categorical(["x", "y"])})
    assert data.dataset(frame, "kind").classes == ["x", "y"]
    assert data.dataset(frame.drop(columns="kind"), "b")[1][0].tolist() == [2.0]
    with pytest.raises(TypeError, match="target"):
        data.dataset(frame)


def test_tables_of_arrow():
    pyarrow = pytest.importorskip("pyarrow", reason="make test-neighbours installs it")
    table = pyarrow.table({"a": [1.0, 2.0], "b": [3, 4], "kind": ["x", "y"]})
    assert data.dataset(table, "kind").classes == ["x", "y"] and data.dataset(table, "kind")[1][0].tolist() == [2.0, 4.0]


def test_datasets_of_torch(arrays):
    torch = pytest.importorskip("torch", reason="make test-neighbours installs it")
    x, y = arrays
    whole = values(data.DataLoader((x, y), batch=16, seed=3))
    mapped = torch.utils.data.TensorDataset(torch.tensor(x), torch.tensor(y))
    assert values(data.DataLoader(mapped, batch=16, seed=3)) == whole
    assert values(data.DataLoader(mapped, batch=16, seed=3, workers=2, processes=True)) == whole

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(mapped)

    assert values(data.DataLoader(Stream(), batch=16, seed=3)) == whole
    assert values(data.DataLoader(Stream(), batch=16, stream=True)) == values(data.DataLoader((x, y), batch=16, shuffle=False))
    with pytest.raises(TypeError, match=".dataset"):
        data.dataset(torch.utils.data.DataLoader(mapped))


def test_a_loader_of_torch_may_fork_us():
    torch = pytest.importorskip("torch", reason="make test-neighbours installs it")

    class UsesVarve(torch.utils.data.Dataset):
        weight = vv.normal((64, 64)).eval()

        def __len__(self):
            return 16

        def __getitem__(self, index):
            return torch.tensor((vv.ones((1, 64)) @ self.weight * index).numpy().copy()), index

    vv.matmul(UsesVarve.weight, UsesVarve.weight).eval()  # the parent's threads are at work
    loader = torch.utils.data.DataLoader(UsesVarve(), batch_size=4, num_workers=2, multiprocessing_context="fork")
    total = sum(float(x.sum()) for x, _ in loader)
    assert total == pytest.approx(float(UsesVarve.weight.sum().item()) * sum(range(16)), rel=1e-3)


# ---- views


def test_views(arrays):
    train = data.dataset(*arrays)
    assert len(train.take(5)) == 5 and len(train.range(5, 9)) == 4 and len(train[10:20:2]) == 5
    assert train.subset([3, 1])[0][0].tolist() == arrays[0][3].tolist() and train[-1][1].item() == 1
    held, rest = train.split(0.25, seed=1)
    assert len(held) == 10 and len(rest) == 30
    assert np.array_equal(train.arrays()[0].numpy(), arrays[0])
    with pytest.raises(IndexError):
        train[40]
    named = data.dataset(arrays[0], np.array(["cat", "dog"] * 20))
    assert named.with_classes(["bird", "dog", "cat"])[0][1].item() == 2 and named.class_count() == 2
    again = pickle.loads(pickle.dumps(named))
    assert again.classes == named.classes and values(data.DataLoader(again)) == values(data.DataLoader(named))
    assert "40 samples" in repr(train)


def test_transforms_by_name_and_in_python():
    digits = data.digits(train=20, test=10).train

    def shade(image, random):
        image *= random.uniform(0.25, 0.5)

    def negative(image, random):
        return 1 - image

    mapped = digits.map("flip", shade, negative, crop={"padding": 2}, rotate=10)
    threads = [values(data.DataLoader(mapped, batch=5, seed=1, workers=n)) for n in (0, 1, 3)]
    assert threads[0] == threads[1] == threads[2]
    epochs = data.DataLoader(mapped, batch=20, shuffle=False)
    assert values(epochs) != values(epochs)  # anew in each epoch
    assert np.allclose(digits.map(negative)[3][0].numpy(), 1 - digits[3][0].numpy())
    assert np.allclose(digits.map(data.normalize(0.5, 0.25))[3][0].numpy(), (digits[3][0].numpy() - 0.5) / 0.25, atol=1e-6)
    with pytest.raises(ValueError, match="map_samples may change shapes"):
        digits.map(lambda image, random: image[:14])[0]
    with pytest.raises(ZeroDivisionError):
        list(data.DataLoader(digits.map(lambda image, random: 1 / 0), batch=5))
    with pytest.raises(ValueError, match="crop"):
        digits.map("crops")
    half = digits.map_samples(lambda x, y: (x[::2, ::2], y + 1))
    assert half.x[0] == (14, 14, 1) and half[0][1].item() == digits[0][1].item() + 1


def test_words_and_tables():
    words = data.Vocabulary(["", "?", "good", "bad"])
    assert words.id("good") == 2 and words.word(3) == "bad" and len(words) == 4
    assert words.encode("Good, or bad?", 4) == [0, 2, 1, 3]
    assert data.Vocabulary.split("It's<br>GOOD 42") and words.words[2] == "good"


def test_the_catalogue():
    assert {"digits", "mnist", "imdb"} <= {entry.name for entry in data.catalog()}
    assert data.digits(train=10, test=5).test.name == "digits" and len(data.digits(train=10, test=5).test) == 5
    with pytest.raises(ValueError, match="digits"):
        data.load("digit")


# ---- batches


def test_loaders(arrays):
    loader = data.DataLoader(arrays, batch=16, seed=5, drop_last=True)
    assert len(loader) == 2 and [x.shape for x, _ in loader] == [(16, 3)] * 2 and loader.epoch == 1
    second = values(loader)
    loader.epoch = 1
    assert values(loader) == second
    assert values(data.DataLoader(arrays, batch=16, seed=6)) != values(data.DataLoader(arrays, batch=16, seed=5))
    mixed = next(iter(data.DataLoader(arrays, batch=16, mixup=0.4)))[1]
    assert mixed.shape == (16, 2)
    halves = [values(data.DataLoader(arrays, batch=16, rank=rank, ranks=2)) for rank in (0, 1)]
    assert len(halves[0]) == len(halves[1]) == 3
    iterator = iter(data.DataLoader(arrays, batch=4, workers=3, prefetch=2))
    next(iterator)
    del iterator  # with batches read ahead


def test_streams_are_taken_as_they_come():
    def endless():
        for i in range(10):
            yield np.float32([i]), i % 2

    loader = data.DataLoader(endless, batch=4, stream=True)
    assert [x.numpy().ravel().tolist() for x, _ in loader] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert len(list(loader)) == 3  # and again
    with pytest.raises(TypeError, match="no length"):
        len(loader)


# ---- worker processes


@pytest.mark.parametrize("method", [True, "fork"])
def test_processes_give_the_same_bits_as_threads(method):
    samples = slow_samples.Slow()
    threads = data.DataLoader(samples, batch=7, seed=2, workers=2)
    processes = data.DataLoader(samples, batch=7, seed=2, workers=2, processes=method)
    for _ in range(2):
        assert values(processes) == values(threads)
    assert data._core._processes(processes.dataset) == (2, True)


def test_processes_read_for_views_and_for_fit():
    samples = data.dataset(slow_samples.WithProcess(40))
    held, rest = samples.split(0.25)
    readers = {int(pid) for _, y in data.DataLoader(rest, batch=10, workers=2, processes=True) for pid in y.numpy()}
    assert os.getpid() not in readers and len(readers) == 2
    model = nn.Sequential(nn.Flatten(), nn.Dense(5))
    history = model.fit(slow_samples.Slow(), epochs=2, batch=8, workers=2, processes=True, verbosity="quiet")
    other = nn.Sequential(nn.Flatten(), nn.Dense(5))
    assert history.epochs[1]["loss"] == other.fit(slow_samples.Slow(), epochs=2, batch=8, verbosity="quiet").epochs[1]["loss"]


def test_slow_python_code_is_faster_in_processes():
    samples = slow_samples.Slow(40, 0.02)  # sleeping, it needs no processor: the machine may be busy
    loader = data.DataLoader(samples, batch=10, workers=4, processes="fork")
    begin = time.perf_counter()
    list(loader)
    assert time.perf_counter() - begin < 0.6 * 40 * 0.02


def test_errors_of_a_worker_name_the_sample_and_where():
    loader = data.DataLoader(slow_samples.Fails(), batch=8, workers=2, processes="fork")
    with pytest.raises(ValueError, match=r"(?s)sample 7: KeyError: 'no such file'.*worker process \d+.*slow_samples.py") as error:
        list(loader)
    assert "__getitem__" in str(error.value)
    with pytest.raises(ValueError, match="sample 7: KeyError") as error:
        list(data.DataLoader(slow_samples.Fails(), batch=8, workers=2))
    assert isinstance(error.value.__cause__, KeyError) and error.value.__cause__.__traceback__ is not None


def test_a_worker_that_is_killed_is_noticed_and_replaced():
    loader = data.DataLoader(slow_samples.Dies(), batch=8, workers=2, processes="fork", shuffle=False)
    with pytest.raises(ValueError, match="worker process .* was ended by SIGKILL while it read sample 9"):
        list(loader)
    assert len(next(iter(loader))[0]) == 8  # new ones started


def test_samples_that_cannot_be_sent_are_refused():
    with pytest.raises(ValueError, match='(?s)cannot be sent to another process.*processes="fork"'):
        data.DataLoader([(np.zeros(2), 0)], workers=1, processes=True, batch=1) and data.DataLoader(
            data.dataset(np.zeros((4, 2)), np.zeros(4)).map_samples(lambda x, y: (x, y)), workers=1, processes=True
        )
    with pytest.raises(ValueError, match="'spawn', 'fork'"):
        data.DataLoader(slow_samples.Slow(), workers=1, processes="threads")


def test_ctrl_c_ends_waiting_for_workers_and_the_workers():
    code = """
import os, signal, threading, time, slow_samples
from varve import data
loader = data.DataLoader(slow_samples.Hangs(), batch=8, workers=2, processes=True)
pids = [worker.pid for worker in __import__("multiprocessing").active_children()]
threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
begin = time.perf_counter()
try:
    list(loader)
except KeyboardInterrupt:
    print("interrupted", time.perf_counter() - begin < 8)
del loader
time.sleep(0.3)
print([os.path.exists(f"/proc/{pid}") for pid in pids])
"""
    script = "if __name__ == '__main__':\n" + "".join(f"    {line}\n" for line in code.strip().splitlines())
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    assert done.stdout == "interrupted True\n[False, False]\n", done.stdout + done.stderr


def test_no_process_is_left_when_the_program_ends():
    code = """
import multiprocessing, slow_samples
from varve import data
if __name__ == '__main__':
    loader = data.DataLoader(slow_samples.Slow(), batch=8, workers=2, processes=True)
    next(iter(loader))
    print(*[worker.pid for worker in multiprocessing.active_children()])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, env=ENVIRONMENT)
    pids = done.stdout.split()
    assert len(pids) == 2 and done.stderr == "" and done.returncode == 0
    assert not any(os.path.exists(f"/proc/{pid}") for pid in pids)
