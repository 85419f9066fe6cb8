"""No argument ends the process: every public function is called with what it does not expect."""

import os
import re
import subprocess
import sys

import pytest

import varve
import varve as vv
from varve import nn

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(varve.__file__)))
CODE = r'''
import faulthandler, gc, inspect, math, random, sys, warnings
import varve as vv
from varve import data, nn, optim, train, zoo

warnings.simplefilter("ignore")
faulthandler.enable()
deep = []
for _ in range(5000):
    deep = [deep]

class Odd:
    def __len__(self): return 3
    def __getitem__(self, i): raise RuntimeError("no")
    def __repr__(self): raise RuntimeError("no repr")

class Liar:
    def __index__(self): return "three"
    def __float__(self): raise MemoryError("mine")
    def __array__(self, *a, **k): return "not an array"

VALUES = [None, "", "relu", "\udcff", "\0", b"x", 0, 1, -1, 3, 2**31, -2**63, 2**64, 1e308, float("nan"), float("inf"), -0.0, 1j, True, (), [], {},
          [1, "a"], [[1, 2], [3]], (0,), (-1, -1), (2**40, 2**40), deep, Odd(), Liar(), object, len, lambda *a, **k: None,
          lambda x: x, vv.ones((2, 3)), vv.zeros((0,)), vv.tensor(1), vv.tensor([True]), vv.tensor(float("nan")), vv.f32,
          vv.Variable([1.0]), {"a": 1}, {1: 2}, slice(None), ..., range(3), set(), iter([1]), vv, vv.Tensor]
# Waits for somebody, writes or downloads files, or ends the process: not called here with anything.
SKIP = {"fit", "evaluate", "predict", "lr_find", "set_device", "set_threads", "set_deterministic", "load_run", "csv_log", "tensorboard",
        "save", "save_npy", "save_npz", "save_png", "synchronize", "run", "load"}
SKIP |= {name for name in dir(data) if name not in ("dataset", "DataLoader", "transform_names", "Dataset", "Splits")}
names = sys.argv[2:]
rng = random.Random(int(sys.argv[1]))

def callables():
    for module in (vv, nn, optim, data, train, zoo):
        for name in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, name)
            if name.startswith("_") or name in SKIP or not callable(value) or getattr(value, "__module__", "").startswith("typing"):
                continue
            yield f"{module.__name__}.{name}", value
            if inspect.isclass(value) and value is not type:
                for member in dir(value):
                    if not member.startswith("_") and member not in SKIP and callable(getattr(value, member, None)):
                        yield f"{module.__name__}.{name}.{member}", getattr(value, member)

count = 0
for name, function in callables():
    for attempt in range(12):
        args = [rng.choice(VALUES) for _ in range(rng.choice([0, 1, 1, 2, 2, 3, 4]))]
        if attempt % 2 and "." in name and not inspect.isclass(function):
            args[:1] = [vv.ones((2, 3))]
        if any(isinstance(each, int) and abs(each) > 2**20 or each == (2**40, 2**40) for each in args if not isinstance(each, (vv.Tensor, vv.Variable)) and type(each) is not Liar) and "." in name and name.rsplit(".")[-1] in ("eye", "permutation", "arange", "linspace"):
            continue
        print(name, len(args), flush=True, file=sys.stderr)
        try:
            result = function(*args)
            if isinstance(result, vv.Tensor) and result.size < 10**6:
                result.numpy()
        except (Exception, RecursionError) as error:
            text = str(error)
            assert "std::bad_cast" not in text and "bad_alloc" not in text, (name, args, text)
        count += 1
gc.collect()
print(count)
'''


@pytest.mark.parametrize("seed", range(2))
def test_every_function_survives_what_it_does_not_expect(seed, tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", CODE, str(seed)], capture_output=True, text=True, timeout=300, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": ROOT},
    )  # fmt: skip
    assert done.returncode == 0, f"{done.returncode}\n" + done.stderr[-3000:]
    assert int(done.stdout.split()[-1]) > 2000


BAD = [
    ("vv.softmax(vv.ones(3), axis='a')", TypeError, "softmax: axis must be an integer, got 'a' (str)"),
    ("vv.softmax(None)", TypeError, "softmax: x must be a tensor, an array or a number, got None"),
    ("vv.softmax('abc')", TypeError, "softmax: x must be a tensor"),
    ("vv.sum(vv.ones(3), keepdims=3)", TypeError, "keepdims must be True or False"),
    ("vv.sum(vv.ones(3), axis=(0, 'b'))", TypeError, "axis must be an integer or a sequence of integers"),
    ("vv.zeros('abc')", TypeError, "zeros: shape must be"),
    ("vv.zeros(3, dtype='f33')", ValueError, "f33"),
    ("vv.zeros(3, dtype=3.5)", TypeError, "element type"),
    ("vv.zeros((2, -3))", ValueError, "-3"),
    ("vv.ones(2**70)", ValueError, "64 bits"),
    ("vv.concat(3)", TypeError, "concat: parts must be a sequence of tensors"),
    ("vv.cross_entropy(vv.ones((1, 2)), vv.tensor([0]), reduction='avg')", ValueError, "'mean', 'sum' or 'none'"),
    ("vv.grad(3)", TypeError, "expected a function"),
    ("vv.grad(lambda x: x.sum(), argnums=4)(vv.ones(1))", TypeError, "there is no argument 4"),
    ("vv.grad(lambda x: 3)(vv.ones(1))", TypeError, "returned a int"),
    ("vv.grad(lambda x: x.sum())('a')", TypeError, "has no gradient"),
    ("vv.compile(3)", TypeError, "expected a function"),
    ("optim.Adam('fast')", TypeError, "rate must be a number"),
    ("optim.Adam(bta1=0.5)", ValueError, "beta1"),
    ("optim.Adam(1e-3).over(3)", TypeError, "parameters must be a list of variables"),
    ("zoo.make('lenet6')", ValueError, "lenet5"),
    ("vv.gather(vv.ones(3), vv.tensor([7])).numpy()", ValueError, "out of range"),
    ("vv.find_operator('reluu')", ValueError, "relu"),
    ("vv.elementwise(lambda *x: x)", TypeError, "must name its arguments"),
    ("vv.elementwise(lambda x: 1 if x > 0 else 0)", TypeError, "varve.where"),
    ("vv.define('nothing', shape=lambda x: x)", ValueError, "neither decompose nor kernel"),
    ("vv.load_npy('/nowhere.npy')", ValueError, "nowhere"),
    ("vv.encode_png(vv.ones(3))", ValueError, "a picture is u8"),
    ("vv.Scope(3)", TypeError, "name must be a string"),
    ("vv.zeros((2**40, 2**10)).numpy()", MemoryError, "could not allocate"),
]


@pytest.mark.parametrize("code, kind, text", BAD, ids=[each[0] for each in BAD])
def test_errors_say_what_was_expected(code, kind, text):
    import varve as vv
    from varve import optim, zoo

    with pytest.raises(kind) as raised:
        eval(code, {"vv": vv, "optim": optim, "zoo": zoo})
    assert text in str(raised.value), str(raised.value)


def run(code, timeout=60):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=timeout)


def test_a_forward_that_calls_itself():
    done = run("""
import varve as vv
from varve import nn
class Loop(nn.Module):
    def forward(self, x):
        return self(x)
try:
    Loop()(vv.ones((1, 2)))
except RuntimeError:  # a RecursionError is one
    print("deep")
""")
    assert done.stdout.strip() == "deep", done.stderr[-2000:]


def test_the_end_of_the_process_is_quiet():
    """Tensors, programs, models and operators in module globals; a thread still at work."""
    done = run("""
import threading, time
import varve as vv
from varve import nn
a = vv.normal((64, 64)).eval()
lazy = vv.matmul(a, a)
f = vv.compile(lambda x: x @ x)
f(a)
own = vv.define("own", shape=lambda x: x, decompose=lambda x: x + 1, gradient=lambda i, o, d: d)
own(a).eval()
rule = vv.custom_vjp(lambda x: x * 2, lambda i, o, d: d)
kept = rule(a)
model = nn.Sequential(nn.Dense(3))
model.build((4,))
model.step = f if hasattr(model, "__dict__") else None
def work():
    while True:
        f(a).numpy()
        vv.grad(lambda x: rule(x).sum())(a).eval()
threading.Thread(target=work, daemon=True).start()
time.sleep(0.3)
print("done")
""")
    assert done.returncode == 0 and done.stdout.strip() == "done" and done.stderr == "", done.stderr[-2000:]


def test_sub_interpreters_are_refused():
    done = run("""
import varve
try:
    import _interpreters as interpreters
except ImportError:
    import _xxsubinterpreters as interpreters
other = interpreters.create()
try:
    failed = interpreters.run_string(other, "import varve")
    if failed is not None:
        raise RuntimeError(failed.formatted if hasattr(failed, "formatted") else failed)
    print("imported")
except Exception as error:
    print("refused", "interpreter" in str(error), str(error)[-300:])
""")
    assert done.stdout.startswith("refused True"), done.stdout + done.stderr[-2000:]


def test_names_of_other_libraries_lead_to_ours():
    from varve import _hints

    for name in _hints.FUNCTIONS:
        with pytest.raises(AttributeError, match=f"{name}.*Use "):
            getattr(vv, name)
    for name in _hints.METHODS:
        with pytest.raises(AttributeError, match=f"{name}.*Use "):
            getattr(vv.ones(2), name)
    for hint in [*_hints.FUNCTIONS.values(), *_hints.METHODS.values()]:
        for used in re.findall(r"varve\.(\w+)", hint):
            assert hasattr(vv, used), hint
    with pytest.raises(AttributeError, match="no attribute 'nothing'$"):
        vv.ones(2).nothing
    assert not hasattr(vv, "nothing") and vv.Variable([2.5]).item() == 2.5


def test_fit_names_the_option_that_is_wrong():
    x = vv.ones((4, 2))
    for option, value in [("epochs", "3"), ("batch", 2.5), ("seed", None)]:
        with pytest.raises(TypeError, match=f"fit: {option} cannot be"):
            nn.Sequential(nn.Dense(2)).fit(x, vv.zeros(4, "i32"), verbosity="quiet", **{option: value})
    assert len(nn.Sequential([nn.Dense(2), nn.Dense(3)])) == 2
