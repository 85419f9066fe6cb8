"""Several ranks from Python: who starts them decides, the program does not change."""

import os
import subprocess
import sys

import pytest

from varve import _core, distributed

PROGRAM = """
import sys
import varve as vv
from varve import data, distributed, nn, optim

digits = data.digits(train=200, test=50)
model = nn.Sequential(nn.Flatten(), nn.Dense(16, activation="tanh"), nn.Dense(10))
history = model.fit(digits.train, optimizer=optim.Adam(1e-2), epochs=2, batch=32, validation=digits.test, verbosity="quiet")
distributed.check_ranks(model.parameters())

adam = optim.Adam(1e-2).over(model.parameters())

@vv.compile
def step(x, y):
    loss, grads = vv.value_and_grad(lambda: vv.cross_entropy(model(x, train=True), y), model.parameters())
    adam.apply(grads)
    return distributed.all_mean(loss)

assert [x.shape[0] for x, _ in data.DataLoader(digits.train, batch=40)] == [40 // distributed.size()] * 5
losses = [step(x, y).item() for x, y in data.DataLoader(digits.train, batch=40, seed=7)]
total = distributed.all_sum(vv.tensor([1.0 + distributed.rank()])).tolist()
assert total == [distributed.size() * (distributed.size() + 1) / 2], total
if distributed.rank() == 0:
    print("losses", *[f"{each['loss']:.4f} {each['val_loss']:.4f}" for each in history.epochs], *[f"{loss:.4f}" for loss in losses])
"""


def has_engine():
    """Whether the build has Gloo. Whether it works is what the tests are for."""
    return os.path.exists(os.path.join(os.path.dirname(_core.__file__), "libvarve_gloo.so"))


def losses_of(path, ranks):
    done = subprocess.run([sys.executable, "-c", f"from varve import distributed; import sys; "
                           f"sys.exit(distributed.launch([sys.executable, {path!r}], ranks={ranks}))"],
                          capture_output=True, text=True, timeout=120)  # fmt: skip
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("losses"))
    return [float(word) for word in line.split()[1:]]


@pytest.mark.skipif(not has_engine(), reason="Gloo's library is not part of this build")
def test_ranks_train_as_one(tmp_path):
    path = str(tmp_path / "train.py")
    with open(path, "w") as file:
        file.write(PROGRAM)
    one, two = losses_of(path, 1), losses_of(path, 2)
    assert len(one) == len(two) == 9 and all(abs(a - b) < 1e-3 for a, b in zip(one, two))


@pytest.mark.skipif(not has_engine(), reason="Gloo's library is not part of this build")
def test_a_rank_that_fails_is_an_exit_code():
    code = "import os, sys; sys.exit(7 if os.environ['VARVE_RANK'] == '1' else 0)"
    assert distributed.launch([sys.executable, "-c", code], ranks=2) == 7


@pytest.mark.skipif(not has_engine(), reason="Gloo's library is not part of this build")
@pytest.mark.parametrize("end, said", [("raise KeyError('no such table')", "no such table"), ("sys.exit(0)", "ended in order")])
def test_the_others_are_told_how_a_rank_ended(tmp_path, end, said):
    path = tmp_path / "train.py"
    path.write_text(f"import sys\nfrom varve import distributed\ndistributed.rank_barrier()\n"
                    f"if distributed.rank() == 1:\n    {end}\ndistributed.rank_barrier()\n")  # fmt: skip
    done = subprocess.run([sys.executable, "-m", "varve.launch", "-n", "2", str(path)],
                          capture_output=True, text=True, timeout=60)  # fmt: skip
    told = [line for line in done.stderr.splitlines() if "varve.Error" in line or "Error: rank 1" in line]
    assert done.returncode == 1 and any("rank 1" in line and said in line for line in told), done.stderr


def test_the_launcher_puts_this_python_before_a_program():
    from varve.launch import _words

    assert _words(["-n", "2", "train.py", "other.py"]) == ["-n", "2", sys.executable, "train.py", "other.py"]
    for words in (["-n", "2", "python", "train.py"], ["-n", "2", "/usr/bin/python3.11", "-u", "train.py"], ["-n", "2", "train", "lenet5"]):
        assert _words(words) == words


def test_a_world_of_one():
    assert (distributed.rank(), distributed.size(), distributed.engine()) == (0, 1, "none")
    assert "VARVE_RANK" not in os.environ
    with pytest.raises(ValueError, match="another rank"):
        distributed.send([1.0], to=1)
    with pytest.raises(ValueError, match="ranks"):
        distributed.launch(["true"], ranks=0)
