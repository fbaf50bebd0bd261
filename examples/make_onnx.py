#!/usr/bin/env python3
"""Writes a small ONNX model: 64 numbers to 10, two layers, random weights.

  /usr/bin/python3 examples/make_onnx.py classifier.onnx
"""
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def main():
    random = np.random.default_rng(1)

    def weight(*shape):
        return (random.uniform(-1, 1, shape) / np.sqrt(shape[-1])).astype(np.float32)
    weights = {"hidden.weight": weight(32, 64), "hidden.bias": weight(32),
               "digit.weight": weight(10, 32), "digit.bias": weight(10)}
    nodes = [
        helper.make_node("Gemm", ["pixels", "hidden.weight", "hidden.bias"], ["h"],
                         name="hidden", transB=1),
        helper.make_node("Relu", ["h"], ["r"], name="relu"),
        helper.make_node("Gemm", ["r", "digit.weight", "digit.bias"], ["scores"],
                         name="digit", transB=1),
    ]
    graph = helper.make_graph(
        nodes, "classifier",
        [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, ["batch", 64])],
        [helper.make_tensor_value_info("scores", TensorProto.FLOAT, ["batch", 10])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.checker.check_model(model)
    onnx.save(model, sys.argv[1])


if __name__ == "__main__":
    main()
