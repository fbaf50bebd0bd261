#!/usr/bin/env python3
"""Writes a small language model with a cache of keys and values, as exporters
write them: two blocks of causal attention, random weights.

  /usr/bin/python3 examples/make_decoder.py decoder.onnx

Inputs are the new tokens, a mask of all tokens (0: ignore) and, for each block,
the keys and values of the tokens before. Outputs are the scores of the next
tokens, and the keys and values of all tokens.
"""
import argparse

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

FLOAT, INT64 = TensorProto.FLOAT, TensorProto.INT64


class Decoder:
    """The sizes and weights of the model."""

    def __init__(self, layers=2, heads=2, head=8, vocabulary=32, positions=512, seed=1):
        self.layers, self.heads, self.head = layers, heads, head
        self.vocabulary, self.width = vocabulary, heads * head
        random = np.random.default_rng(seed)

        def weight(*shape):
            return (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        width = self.width
        self.weights = {"tokens": weight(vocabulary, width) * 4,
                        "positions": weight(positions, width) * 32,
                        "scores": weight(width, vocabulary),
                        "norm.scale": np.ones(width, np.float32), "norm.bias": weight(width)}
        for i in range(layers):
            for name, shape in (("qkv", (width, 3 * width)), ("out", (width, width)),
                                ("up", (width, 4 * width)), ("down", (4 * width, width))):
                self.weights[f"{i}.{name}"] = weight(*shape)
                self.weights[f"{i}.{name}.bias"] = weight(shape[1])
            for norm in ("norm1", "norm2"):
                self.weights[f"{i}.{norm}.scale"] = np.ones(width, np.float32)
                self.weights[f"{i}.{norm}.bias"] = weight(width)

    def model(self, total="past + sequence"):
        """Returns the model. `total` names the dimension of old and new tokens."""
        graph = Graph(self)
        cache = ["batch", self.heads, "past", self.head]
        present = ["batch", self.heads, total, self.head]
        inputs = [("input_ids", INT64, ["batch", "sequence"]),
                  ("attention_mask", INT64, ["batch", total])]
        outputs = [("logits", FLOAT, ["batch", "sequence", self.vocabulary])]
        for i in range(self.layers):
            for kind in ("key", "value"):
                inputs.append((f"past_key_values.{i}.{kind}", FLOAT, cache))
                outputs.append((f"present.{i}.{kind}", FLOAT, present))
        graph.build()
        arrays = {**self.weights, **graph.constants}
        model = helper.make_model(helper.make_graph(
            graph.nodes, "decoder", [helper.make_tensor_value_info(*one) for one in inputs],
            [helper.make_tensor_value_info(*one) for one in outputs],
            [numpy_helper.from_array(array, name) for name, array in arrays.items()]),
            opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        return model


class Graph:
    """The nodes of a decoder."""

    def __init__(self, decoder):
        self.decoder = decoder
        self.nodes, self.constants = [], {}

    def op(self, kind, *inputs, to=None, cast=None, **attributes):
        output = to or f"{kind.lower()}_{len(self.nodes)}"
        if cast is not None:
            attributes["to"] = cast
        self.nodes.append(helper.make_node(kind, list(inputs), [output], name=output,
                                           **attributes))
        return output

    def number(self, value, dtype=np.int64):
        name = f"constant_{len(self.constants)}"
        self.constants[name] = np.array(value, dtype)
        return name

    def linear(self, x, name):
        return self.op("Add", self.op("MatMul", x, name), f"{name}.bias")

    def norm(self, x, name):
        return self.op("LayerNormalization", x, f"{name}.scale", f"{name}.bias", axis=-1)

    def build(self):
        self.mask_and_positions()
        x = self.op("Add", self.op("Gather", "tokens", "input_ids"), self.positions)
        for i in range(self.decoder.layers):
            x = self.op("Add", x, self.attention(self.norm(x, f"{i}.norm1"), i))
            up = self.linear(self.norm(x, f"{i}.norm2"), f"{i}.up")
            gate = self.op("Sigmoid", self.op("Mul", up, self.number(1.702, np.float32)))
            x = self.op("Add", x, self.linear(self.op("Mul", up, gate), f"{i}.down"))
        self.op("MatMul", self.norm(x, "norm"), "scores", to="logits")

    def mask_and_positions(self):
        zero, one = self.number(0), self.number(1)
        sequence = self.op("Gather", self.op("Shape", "input_ids"), one)
        total = self.op("Gather", self.op("Shape", "attention_mask"), one)
        past = self.op("Sub", total, sequence)
        queries = self.op("Unsqueeze", self.op("Range", past, total, one), self.number([1]))
        keys = self.op("Unsqueeze", self.op("Range", zero, total, one), self.number([0]))
        causal = self.op("Cast", self.op("LessOrEqual", keys, queries), cast=FLOAT)
        mask = self.op("Cast", self.op("Unsqueeze", "attention_mask", self.number([1, 2])),
                       cast=FLOAT)
        unit = self.number(1, np.float32)
        self.bias = self.op("Mul", self.op("Sub", self.op("Mul", causal, mask), unit),
                            self.number(1e9, np.float32))
        # The position of a token is the number of tokens before it that are not
        # masked.
        before = self.op("Sub", self.op("CumSum", "attention_mask", one), one)
        ends = [self.op("Unsqueeze", end, self.number([0])) for end in (past, total)]
        new = self.op("Slice", self.op("Max", before, zero), *ends, self.number([1]))
        self.positions = self.op("Gather", "positions", new)

    def attention(self, x, i):
        heads, head = self.decoder.heads, self.decoder.head
        names = [f"{i}.{part}" for part in ("q", "k", "v")]
        self.nodes.append(helper.make_node("Split", [self.linear(x, f"{i}.qkv")], names,
                                           name=f"{i}.split", axis=-1))
        q, k, v = (self.op("Transpose",
                           self.op("Reshape", part, self.number([0, 0, heads, head])),
                           perm=[0, 2, 1, 3]) for part in names)
        k = self.op("Concat", f"past_key_values.{i}.key", k, to=f"present.{i}.key", axis=2)
        v = self.op("Concat", f"past_key_values.{i}.value", v, to=f"present.{i}.value", axis=2)
        scores = self.op("MatMul", q, self.op("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.op("Div", scores, self.number(np.sqrt(head), np.float32))
        weights = self.op("Softmax", self.op("Add", scores, self.bias), axis=-1)
        rows = self.op("Transpose", self.op("MatMul", weights, v), perm=[0, 2, 1, 3])
        width = self.number([0, 0, heads * head])
        return self.linear(self.op("Reshape", rows, width), f"{i}.out")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", help="the ONNX file to write")
    onnx.save(Decoder().model(), parser.parse_args().file)


if __name__ == "__main__":
    main()
