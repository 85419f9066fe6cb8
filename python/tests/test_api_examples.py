"""The Python that the project's API document shows, as it stands there; PyTorch's parts where PyTorch is installed."""

from __future__ import annotations

import numpy as np
import pytest

import varve as vv
from varve import data, nn, optim, zoo


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first, self.second = nn.Conv2d(channels, kernel=3), nn.Conv2d(channels, kernel=3)

    def forward(self, x, train=False):
        return vv.relu(x + self.second(vv.relu(self.first(x, train)), train))


def test_tensors(capsys):
    array = np.arange(4, dtype="float32").reshape(2, 2)
    a = vv.tensor([[1., 2.], [3., 4.]])             # lists, arrays: copies
    v = vv.asarray(array)                           # NumPy, torch, jax, cupy by DLPack: shares memory, which must not change
    b = vv.exp(a)[:, 0] + 1                         # lazy; NumPy's indexing, slices with steps, masks, None, ...
    np.asarray(b); print(b)                         # reading computes  # noqa: E702
    assert np.allclose(np.asarray(b), np.exp([1, 3]) + 1) and capsys.readouterr().out == f"{b}\n"
    assert np.shares_memory(v.numpy(), array)
    assert a[::-1, None, ..., -1:].shape == (2, 1, 1) and a[a > 2].tolist() == [3, 4] and vv.sum(a).item() == 10
    with pytest.raises(TypeError, match="where"):
        a[0] = 1


def test_bf16_arrives_as_ml_dtypes():
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="bf16 needs ml_dtypes, the package's extra [bf16]")
    assert np.asarray(vv.ones(2, "bf16")).dtype == ml_dtypes.bfloat16


def test_tensors_of_pytorch():
    torch = pytest.importorskip("torch", reason="torch is not installed: tools/test-python --neighbours")
    a, t = vv.tensor([[1., 2.], [3., 4.]]), torch.arange(3, dtype=torch.float32)
    assert torch.from_dlpack(a).tolist() == a.tolist()
    there_and_back = vv.from_dlpack(t)
    assert there_and_back.tolist() == [0, 1, 2] and there_and_back.numpy().ctypes.data == t.data_ptr()


def test_gradients():
    a = vv.tensor([[1., 2.], [3., 4.]])
    g = vv.grad(lambda x: (x ** 3).sum())(a)
    assert g.tolist() == [[3, 12], [27, 48]]
    model, x, y = nn.Sequential(nn.Dense(3)), vv.ones((4, 2)), vv.zeros(4, "i32")
    model.build((2,))
    loss, grads = vv.value_and_grad(lambda: vv.cross_entropy(model(x, train=True), y), model.parameters())
    assert loss.item() > 0 and [each.shape for each in grads] == [(2, 3), (3,)]


def test_a_network_is_trained_saved_and_stepped():
    model = nn.Sequential(nn.Conv2d(32, kernel=3, activation="relu"), Residual(32), nn.Flatten(), nn.Dense(10))
    digits = data.digits(train=512, test=128)
    history = model.fit(digits.train, optimizer=optim.Adam(1e-3), epochs=3, batch=128, validation=digits.test, run="runs/digits")
    model.save("digits.safetensors")
    assert len(history.epochs) == 3 and set(vv.load("digits.safetensors")) == set(model.state_dict())

    adam = optim.Adam(1e-3).over(model.parameters())

    @vv.compile
    def step(x, y):
        loss, grads = vv.value_and_grad(lambda: vv.cross_entropy(model(x, train=True), y), model.parameters())
        adam.apply(grads)
        return loss

    for x, y in data.DataLoader(digits.train, batch=128, seed=7): step(x, y)  # noqa: E701
    assert adam.steps() == 4


def test_a_state_dict_of_pytorch():
    torch = pytest.importorskip("torch", reason="torch is not installed: tools/test-python --neighbours")
    torch_model = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.Flatten(), torch.nn.Linear(4 * 64, 2))
    model = nn.Sequential(nn.Conv2d(4, kernel=3), nn.Flatten(), nn.Dense(2))
    model.build((8, 8, 1))
    model.load_state_dict(torch_model.state_dict(), layout="pytorch")
    images = np.random.default_rng(0).normal(size=(3, 8, 8, 1)).astype("float32")
    with torch.no_grad():
        theirs = torch_model(torch.tensor(images).permute(0, 3, 1, 2)).numpy()
    assert np.allclose(model(images).numpy(), theirs, atol=1e-5)


def test_things_show_themselves_in_a_notebook():
    model = zoo.lenet5()
    model.build((28, 28, 1))
    digits = data.digits(train=64, test=32)
    history = model.fit(digits.train, epochs=1, verbosity="quiet")
    for shown in (vv.ones((2, 3)), model, history):
        assert "<" in shown._repr_html_()


def test_objects_generators_arrays_and_tables_train_as_they_are():
    class Dataset:
        def __len__(self):
            return 16

        def __getitem__(self, i):
            return np.float32([i, 1]), i % 2

    samples = [Dataset(), ((np.float32([i, 1]), i % 2) for i in range(16)), (np.zeros((16, 2), "float32"), np.arange(16) % 2)]
    for each in samples:
        assert len(nn.Sequential(nn.Dense(2)).fit(each, epochs=1, verbosity="quiet").epochs) == 1


def test_a_table_of_pandas_trains():
    pandas = pytest.importorskip("pandas", reason="pandas is not installed: tools/test-python --neighbours")
    table = pandas.DataFrame({"area": [50.0, 100, 150, 80], "rooms": [1, 2, 3, 2], "price": [150.0, 300, 400, 200]})
    model = nn.Sequential(nn.Dense(1))
    assert len(model.fit(data.dataset(table, "price"), loss="mse", epochs=1, verbosity="quiet").epochs) == 1
