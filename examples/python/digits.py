"""LeNet-5 on digits: train, evaluate, save, load again.

    python digits.py [epochs] [data set]      such as: python digits.py 5 mnist
"""

from __future__ import annotations

import sys

from varve import data, optim, zoo


def main(epochs: int = 3, name: str = "digits") -> None:
    sets = data.digits(train=4000, test=1000) if name == "digits" else data.load(name)
    model = zoo.lenet5()
    model.fit(sets.train, optimizer=optim.Adam(2e-3), schedule=optim.cosine(), epochs=epochs, batch=64, validation=sets.test)
    score = model.evaluate(sets.test)
    print(f"accuracy {score['accuracy']:.4f} on {len(sets.test)} samples")

    model.save("lenet5.safetensors")
    again = zoo.lenet5()
    again.build((28, 28, 1))
    again.load("lenet5.safetensors")
    if again.evaluate(sets.test) != score:
        sys.exit("the loaded network scores differently")


if __name__ == "__main__":
    main(*(kind(word) for kind, word in zip((int, str), sys.argv[1:])))
