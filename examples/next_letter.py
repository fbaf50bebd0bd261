#!/usr/bin/env python3
"""Writes what examples/next_letter.yaml trains: a recurrent network that predicts
the next letter of a text, and the letters of a text file (data/licence.txt beside
it, unless --text names another).

  /usr/bin/python3 examples/next_letter.py
  /usr/bin/python3 examples/next_letter.py --text book.txt

Needs onnx and NumPy.
"""
import argparse
import pathlib
import sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ImportError as missing:
    sys.exit(f"{sys.argv[0]}: {missing}. On Debian: apt-get install python3-onnx "
             "python3-numpy, and start it with /usr/bin/python3; elsewhere: pip install "
             "onnx numpy")

FOLDER = pathlib.Path(__file__).resolve().parent
LETTERS = " abcdefghijklmnopqrstuvwxyz0123456789.,;:-()'\"/"
OTHER = len(LETTERS)  # the token of every other character
VOCABULARY = len(LETTERS) + 1
LENGTH = 32    # letters of a row
WIDTH = 24     # of a letter's embedding
HIDDEN = 64
IGNORED = -100  # label of what is behind the end of the text


def tokens(text):
    numbers = {letter: i for i, letter in enumerate(LETTERS)}
    words = " ".join(text.lower().split())
    return np.array([numbers.get(letter, OTHER) for letter in words], np.int64)


def write_rows(path, text):
    """x: the letters of a row; y: for each of them the one that follows."""
    stream = tokens(text)
    rows = -(-(len(stream) - 1) // LENGTH)
    x = np.zeros(rows * LENGTH, np.int64)
    y = np.full(rows * LENGTH, IGNORED, np.int64)
    x[:len(stream) - 1] = stream[:-1]
    y[:len(stream) - 1] = stream[1:]
    np.savez_compressed(path, x=x.reshape(rows, LENGTH), y=y.reshape(rows, LENGTH))
    return rows


def make_model():
    random = np.random.default_rng(1)

    def weight(*shape):
        return (random.uniform(-1, 1, shape) / np.sqrt(HIDDEN)).astype(np.float32)
    weights = {"embedding": weight(VOCABULARY, WIDTH),
               "gru.input": weight(1, 3 * HIDDEN, WIDTH),
               "gru.state": weight(1, 3 * HIDDEN, HIDDEN),
               "gru.bias": np.zeros((1, 6 * HIDDEN), np.float32),
               "scores.weight": weight(HIDDEN, VOCABULARY),
               "scores.bias": np.zeros(VOCABULARY, np.float32),
               "direction": np.array([1], np.int64)}
    nodes = [
        helper.make_node("Gather", ["embedding", "letters"], ["embedded"], name="embed"),
        helper.make_node("Transpose", ["embedded"], ["by_time"], name="by_time",
                         perm=[1, 0, 2]),
        helper.make_node("GRU", ["by_time", "gru.input", "gru.state", "gru.bias"],
                         ["states"], name="gru", hidden_size=HIDDEN,
                         linear_before_reset=1),
        helper.make_node("Squeeze", ["states", "direction"], ["state"], name="state"),
        helper.make_node("Transpose", ["state"], ["by_row"], name="by_row",
                         perm=[1, 0, 2]),
        helper.make_node("MatMul", ["by_row", "scores.weight"], ["product"],
                         name="product"),
        helper.make_node("Add", ["product", "scores.bias"], ["scores"], name="scores"),
    ]
    graph = helper.make_graph(
        nodes, "next_letter",
        [helper.make_tensor_value_info("letters", TensorProto.INT64, ["batch", LENGTH])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT,
                                       ["batch", LENGTH, VOCABULARY])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--text", default=FOLDER / "data/licence.txt", type=pathlib.Path)
    parser.add_argument("--out", default=FOLDER / "out", type=pathlib.Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    onnx.save(make_model(), options.out / "next_letter.onnx")
    rows = write_rows(options.out / "letters.npz", options.text.read_text())
    print(f"wrote {options.out}/next_letter.onnx and letters.npz: {rows} rows of "
          f"{LENGTH} letters")


if __name__ == "__main__":
    main()
