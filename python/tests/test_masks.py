"""Masks, lengths, weights and sampling in Python: the numbers are the library's, tested there; here the way to them."""

import numpy as np
import pytest

import varve as vv
from varve import data, nn, optim, train


def ragged(count=40, steps=8):
    lengths = [1 + i % steps for i in range(count)]
    x = np.zeros((count, steps), "int32")
    for row, length in zip(x, lengths):
        row[:length] = 1 + np.arange(length) % 3
    return x, np.array([length > steps // 2 for length in lengths], "int32"), lengths


def test_a_mask_goes_with_the_call():
    model = nn.Sequential(nn.Embedding(4, 6), nn.GRU(5), nn.MeanSteps())
    x, _, lengths = ragged(8)
    model.build(8, dtype="i32")
    y = model(x, mask=nn.Mask.of_lengths(lengths, 8)).numpy()
    for i, length in enumerate(lengths):
        np.testing.assert_allclose(y[i], model(x[i : i + 1, :length]).numpy()[0], atol=1e-5)
    states, valid = nn.GRU(3).masked(vv.ones((2, 4, 6)), mask=nn.Mask.of_valid(vv.tensor([[True] * 4, [False, True] * 2])))
    assert states.shape == (2, 4, 3) and valid.lengths().tolist() == [4, 2]


def test_a_module_of_ones_own_hands_it_on_or_asks_for_it():
    class Hands(nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm, self.pool = nn.LSTM(4), nn.MaxSteps()

        def forward(self, x, train=False):
            return self.pool(vv.relu(self.lstm(x, train)) + 1, train)

    class Mixes(Hands):
        def forward(self, x, train=False):
            return vv.mean(self.lstm(x, train), 1)

    class Asks(Hands):
        def forward(self, x, train=False, mask=None):
            self.seen = mask
            return self.lstm(x, train, mask), mask

    x, mask = vv.ones((2, 3, 4)), nn.Mask.of_lengths([1, 3], 3)
    hands = Hands()
    np.testing.assert_allclose(hands(x, mask=mask).numpy()[0], hands(x[:1, :1]).numpy()[0], atol=1e-6)
    with pytest.raises(vv.Error, match=r'"sum" mixes steps.*\n.*forward\(x, train, mask\)'):
        Mixes()(x, mask=mask)
    asks = Asks()
    y, valid = asks.masked(x, mask=mask)
    assert asks.seen.lengths().tolist() == [1, 3] == valid.lengths().tolist() and y.shape == (2, 3, 4)


def test_batches_bring_masks_and_weights():
    x, y, lengths = ragged()
    texts = data.dataset(x, y).with_lengths(lengths)
    assert texts.varies and texts.length(3) == 4
    for words, label, mask in data.DataLoader(texts, batch=8, buckets=3):
        assert words.shape[1] == mask.steps() and mask.lengths().tolist() == [np.count_nonzero(row) for row in words.numpy()]
    for words, label, mask, weight in data.DataLoader(texts.with_weights(range(40)), batch=8, shuffle=False):
        assert weight.shape == (8,)
    assert sorted(set(data.dataset(x, y).labels())) == [0, 1]


def test_fit_with_lengths_weights_and_classes_drawn_alike():
    x, y, lengths = ragged(64)
    model = nn.Sequential(nn.Embedding(4, 6, padding=0), nn.LSTM(8, sequences=False), nn.Dense(2))
    history = model.fit(
        data.dataset(x, y).with_lengths(lengths).with_weights([1.0] * 64), epochs=12, batch=16, buckets=3, balanced=True,
        optimizer=optim.Adam(0.03), loss=train.cross_entropy_with(class_weights=[1, 2]), verbosity="quiet",
    )  # fmt: skip
    assert history.epochs[-1]["accuracy"] > 0.8
    own = model.evaluate(data.dataset(x, y).with_weights([0.0] * 63 + [1.0]), loss=lambda o, t: (o[:, 0] - t) ** 2, metrics=["accuracy"])
    assert own["accuracy"] in (0.0, 1.0)


def test_losses_take_weights():
    z, y = vv.tensor([[2.0, 0.0], [0.0, 2.0], [5.0, 0.0]]), vv.tensor([0, 0, -1])
    each = vv.cross_entropy(z[:2], y[:2], reduction="none").numpy()
    weighted = train.cross_entropy_with(ignore_index=-1)(z, y, vv.tensor([1.0, 3.0, 9.0])).item()
    assert weighted == pytest.approx((each[0] + 3 * each[1]) / 4, rel=1e-5)
    assert vv.cross_entropy(z, y, ignore_index=-1, weights=vv.tensor([1.0, 3.0, 9.0])).item() == pytest.approx(weighted, rel=1e-5)
    with pytest.raises(vv.Error, match="class weights"):
        vv.cross_entropy(z[:2], y[:2], class_weights=vv.ones(3))
