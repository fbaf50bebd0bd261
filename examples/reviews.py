#!/usr/bin/env python3
"""Writes what examples/reviews.yaml trains: a model with two inputs and two
outputs, and reviews for it. A review is a row of words. Some words praise and
some blame; the model predicts its stars and the number of its words.

  /usr/bin/python3 examples/reviews.py

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
WORDS = 40     # 0 to 9 praise, 10 to 19 blame, the others say nothing
LENGTH = 16    # words of a row; shorter reviews are padded with zeros
ROWS = 600
STARS = 3
WIDTH = 16


def write_rows(path):
    random = np.random.default_rng(2)
    ids = random.integers(0, WORDS, (ROWS, LENGTH))
    words = random.integers(4, LENGTH + 1, ROWS)
    mask = (np.arange(LENGTH) < words[:, None]).astype(np.uint8)
    ids = ids * mask
    praise = ((ids < 10) * mask).sum(1)
    blame = ((ids >= 10) * (ids < 20) * mask).sum(1)
    stars = 1 + np.sign(praise - blame)  # 0, 1 or 2
    np.savez(path, ids=ids.astype(np.int64), mask=mask, stars=stars.astype(np.uint8),
             length=(words / LENGTH).astype(np.float32))


def make_model():
    random = np.random.default_rng(1)

    def weight(*shape):
        return (random.uniform(-1, 1, shape) / np.sqrt(WIDTH)).astype(np.float32)
    weights = {"words": weight(WORDS, WIDTH), "hidden.weight": weight(WIDTH, WIDTH),
               "hidden.bias": np.zeros(WIDTH, np.float32),
               "stars.weight": weight(WIDTH, STARS),
               "length.weight": weight(WIDTH, 1),
               "last": np.array([-1], np.int64), "words_axis": np.array([1], np.int64)}
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["embedded"], name="embed"),
        helper.make_node("Unsqueeze", ["attention_mask", "last"], ["column"],
                         name="column"),
        helper.make_node("Mul", ["embedded", "column"], ["kept"], name="mask"),
        helper.make_node("ReduceSum", ["kept", "words_axis"], ["sum"], name="sum",
                         keepdims=0),
        helper.make_node("MatMul", ["sum", "hidden.weight"], ["product"], name="hidden"),
        helper.make_node("Add", ["product", "hidden.bias"], ["shifted"], name="bias"),
        helper.make_node("Relu", ["shifted"], ["hidden"], name="relu"),
        helper.make_node("MatMul", ["hidden", "stars.weight"], ["stars"], name="stars"),
        helper.make_node("MatMul", ["hidden", "length.weight"], ["length"],
                         name="length"),
    ]
    graph = helper.make_graph(
        nodes, "reviews",
        [helper.make_tensor_value_info("input_ids", TensorProto.INT64,
                                       ["batch", LENGTH]),
         helper.make_tensor_value_info("attention_mask", TensorProto.FLOAT,
                                       ["batch", LENGTH])],
        [helper.make_tensor_value_info("stars", TensorProto.FLOAT, ["batch", STARS]),
         helper.make_tensor_value_info("length", TensorProto.FLOAT, ["batch", 1])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    return model


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", default=FOLDER / "out", type=pathlib.Path)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    onnx.save(make_model(), options.out / "reviews.onnx")
    write_rows(options.out / "reviews.npz")
    print(f"wrote {options.out}/reviews.onnx and reviews.npz: {ROWS} reviews")


if __name__ == "__main__":
    main()
