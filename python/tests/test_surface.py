"""What the library's tables list is here."""

import subprocess
import sys

import varve as vv
from varve import _core, data, nn, optim, zoo

# Operators that other names offer, or that only gradients and passes record.
ELSEWHERE = {
    "fill": "full", "iota": "arange", "slice": "indexing", "unslice": "a gradient", "max_pool2d_grad": "a gradient",
    "softmax_cross_entropy": "cross_entropy", "random_uniform": "uniform", "random_normal": "normal",
    "random_bits": "uniform", "lstm": "nn.LSTM", "gru": "nn.GRU", "rnn": "nn.RNN", "barrier": "checkpoint",
    "with_gradient": "custom_vjp", "input": "an argument", "constant": "a value", "max_pool2d_gather": "a gradient",
    **{name: "distributed" for name in ("all_sum", "all_max", "all_min", "all_gather", "sum_scatter", "all_to_all", "rank_broadcast", "send", "recv",
                                        "rank_barrier", "all_sum_begin", "all_sum_end", "all_gather_begin", "all_gather_end",
                                        "one_bit", "one_bit_sum", "top_entries", "transfer", "send_begin", "send_end", "recv_begin", "recv_end")},
    **{name: "linalg" for name in ("triangular_solve", "solve", "det", "slogdet", "cholesky", "qr", "eigh", "svd")}, "dft": "fft",
    "exchanged": "distributed", "owned": "nn.Module.place", "keep": "nn.Module.place",
}  # fmt: skip


def test_every_elementwise_operator_is_here():
    missing = [name for name, elementwise, _ in _core._operators() if elementwise and not hasattr(vv, name) and not name.endswith("_update")]
    assert missing == []


def test_every_other_operator_is_here_or_listed():
    missing = [
        name
        for name, elementwise, _ in _core._operators()
        if not elementwise and not hasattr(vv, name) and name not in ELSEWHERE and not name.endswith(("_grad", "_update"))
        and "_grad" not in name
    ]
    assert missing == []


def test_every_layer_optimiser_schedule_data_set_and_network_is_here():
    for name, _, _ in _core._layer_schemas():
        python = nn._SPELLED.get(name) or "".join(part.capitalize() for part in name.split("_"))
        assert hasattr(nn, python), name
    for name, _ in _core._optimizers() + _core._schedules():
        assert hasattr(optim, name) or name in {each.lower() for each in optim.__all__}
    for name, *_ in _core._catalog():
        assert not name.isidentifier() or hasattr(data, name)
    for entry in zoo.entries():
        assert callable(getattr(zoo, entry.name.replace("-", "_").replace(".", "_")))


def test_the_names_of_the_package_are_its_own():
    assert {"tensor", "grad", "compile", "nn", "info", "__version__"} <= set(dir(vv))
    assert not {"annotations", "TYPE_CHECKING", "List", "Any", "functools"} & set(dir(vv))
    assert not [name for name in dir(vv) if name.startswith("_") and not name.startswith("__")]
    for module in (vv, optim, zoo):
        assert len(set(module.__all__)) == len(module.__all__)
        assert all(hasattr(module, name) for name in module.__all__)
    assert not hasattr(vv, "Module") and not hasattr(vv, "Dataset")  # varve.nn and varve.data have them
    assert vv.info()["version"] == vv.__version__ and "matmul" in vv.__doc__


def test_import_needs_no_numpy():
    code = "import sys, varve; print('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "False"


def test_a_forked_child_computes():
    code = """
import os, varve as vv
x = vv.normal((128, 128)).eval()
expected = vv.matmul(x, x).sum().item()
child = os.fork()
if child == 0:
    os._exit(0 if abs(vv.matmul(x, x).sum().item() - expected) < 1e-2 * abs(expected) + 1 else 1)
print(os.waitpid(child, 0)[1])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "0", done.stderr
