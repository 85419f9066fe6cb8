"""A notebook that trains, in a kernel of its own: the bar, the curves, and the stop button."""

import os
import queue
import time

import pytest

nbformat = pytest.importorskip("nbformat", reason="nbclient and ipykernel run the notebook")
nbclient = pytest.importorskip("nbclient", reason="nbclient and ipykernel run the notebook")
pytest.importorskip("ipykernel", reason="nbclient and ipykernel run the notebook")

CELLS = [
    """
import varve as vv
from varve import data, nn, optim, train
digits = data.digits(train=800, test=200)
digits.train
""",
    """
model = nn.Sequential(nn.Flatten(), nn.Dense(32, activation="relu"), nn.Dense(10))
history = model.fit(digits.train, epochs=30, batch=32, validation=digits.test)
""",
    "history",
    "model",
    "model.lr_find(digits.train, steps=20)",
    "vv.ones((2, 3))",
    "digits",
]


def outputs_of(cell, kind):
    return [output for output in cell.outputs if output.output_type == kind]


def test_a_notebook_that_trains():
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    samples, fit, history, model, finder, _, splits = notebook.cells
    assert samples.outputs[0].data["text/html"].count("<img") == 8
    assert len(fit.outputs) == 1, "one place on the page, written anew"
    text = fit.outputs[0].data["text/plain"]
    assert text.splitlines()[0] == "… 18 lines before" and text.splitlines()[-1].startswith("epoch 30/30 ━━━")
    assert fit.outputs[0].data["text/html"].startswith("<pre")
    page = history.outputs[0].data["text/html"]
    assert page.count("<svg") == 3 and "val_accuracy" in page
    assert "dense" in model.outputs[0].data["text/html"] and "parameters" in model.outputs[0].data["text/html"]
    assert "<svg" in finder.outputs[0].data["text/html"]
    assert "test 200" in splits.outputs[0].data["text/plain"]
    assert not any(outputs_of(cell, "stream") for cell in notebook.cells)


def test_the_stop_button_ends_a_training_and_keeps_it(tmp_path):
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3", env=dict(os.environ))
    try:

        def run(code, interrupt_when=None):
            """The reply, and all text that came."""
            asked, shown, reply = client.execute(code), "", None
            until = time.monotonic() + 90
            while time.monotonic() < until:
                try:
                    message = client.get_iopub_msg(timeout=1)
                except queue.Empty:
                    continue
                if message["parent_header"].get("msg_id") != asked:
                    continue
                content = message["content"]
                shown += content.get("text", "") + content.get("data", {}).get("text/plain", "")
                if interrupt_when and interrupt_when in shown:
                    manager.interrupt_kernel()
                    interrupt_when = None
                if message["msg_type"] == "status" and content["execution_state"] == "idle":
                    break
            assert interrupt_when is None, shown
            reply = client.get_shell_msg(timeout=30)["content"]
            return reply, shown

        folder = str(tmp_path / "run")
        reply, _ = run(CELLS[0] + f"\nmake = lambda: nn.Sequential(nn.Flatten(), nn.Dense(10))\nrun = {folder!r}")
        assert reply["status"] == "ok"
        reply, shown = run("make().fit(digits.train, epochs=100000, batch=32, run=run)", interrupt_when="epoch 3/")
        assert reply["status"] == "error" and reply["ename"] == "KeyboardInterrupt", reply
        assert "saved, and can be resumed" in shown
        reply, shown = run(
            "history = make().fit(digits.train, epochs=100000, batch=32, run=run, resume=True,"
            " callbacks=[lambda s: s.stop('enough')], verbosity='quiet')\n"
            "print('epochs', len(history.epochs), history.stopped)"
        )
        assert reply["status"] == "ok", reply
        count = int(shown.split("epochs ")[1].split()[0])
        assert count >= 3 and "enough" in shown
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
