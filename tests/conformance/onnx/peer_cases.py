#!/usr/bin/env python3
"""Writes cases whose outputs are ONNX Runtime's, in the format of ONNX's own.

    npm install --ignore-scripts onnxruntime-node        in a folder of its own
    peer_cases.py THAT_FOLDER/node_modules CASES
    ONNX_CASES_DIR=CASES onnx_conformance_test --gtest_filter='*OnnxCase*'

So operators of com.microsoft and ai.onnx.ml run on every back end against what
their inventors compute. Needs python3-onnx and node. No test runs it."""
import base64
import json
import pathlib
import subprocess
import sys

import numpy as np
import onnx
from onnx import helper, numpy_helper

import peer_cases_classic
import peer_cases_contrib

TYPES = {"float32": np.float32, "float64": np.float64, "int64": np.int64, "int32": np.int32,
         "uint8": np.uint8, "int8": np.int8, "bool": np.bool_}


class Cases:
    """The cases of one folder."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.cases = []

    def add(self, name, op, inputs, outputs, domain, weights=(), opset=17, version=3,
            compared=None, attributes=None, **more):
        """Adds a case of one node. `inputs` are pairs of a name and an array, or
        "" for one that is absent; those in `weights` become initializers. Only
        the outputs in `compared` are kept, by default all. `version` is that of
        ai.onnx.ml."""
        arrays = dict(pair for pair in inputs if pair)
        node = helper.make_node(op, [pair[0] if pair else "" for pair in inputs], outputs,
                                domain=domain, **(attributes or {}), **more)
        kind = onnx.helper.mapping.NP_TYPE_TO_TENSOR_TYPE
        given = {key: array for key, array in arrays.items() if key not in weights}
        graph = helper.make_graph(
            [node], "g",
            [helper.make_tensor_value_info(key, kind[array.dtype], array.shape)
             for key, array in given.items()],
            [onnx.ValueInfoProto(name=key) for key in outputs if key],
            [numpy_helper.from_array(array, key) for key, array in arrays.items()
             if key in weights])
        model = helper.make_model(graph, opset_imports=[
            helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1),
            helper.make_opsetid("ai.onnx.ml", version)])
        model.ir_version = 8
        folder = self.folder / "node" / f"test_{name}"
        (folder / "test_data_set_0").mkdir(parents=True)
        onnx.save(model, str(folder / "model.onnx"))
        self.cases.append({"name": name, "folder": folder, "model": model, "inputs": given,
                           "compared": compared or [key for key in outputs if key]})

    def run(self, modules):
        """Runs all cases in ONNX Runtime, and returns the outputs by name."""
        listed = [{"name": case["name"], "model": str(case["folder"] / "model.onnx"),
                   "inputs": {key: {"type": array.dtype.name, "dims": array.shape,
                                    "data": base64.b64encode(array.tobytes()).decode()}
                              for key, array in case["inputs"].items()}}
                  for case in self.cases]
        script = pathlib.Path(__file__).with_suffix(".js")
        done = subprocess.run(["node", script, modules], input=json.dumps(listed),
                              stdout=subprocess.PIPE, text=True, check=True)
        return json.loads(done.stdout)

    def write(self, results):
        """Writes inputs and outputs. Removes the cases that were refused."""
        for case in self.cases:
            outputs = results[case["name"]]
            if "error" in outputs:
                print(f"ONNX Runtime refuses {case['name']}: {outputs['error'][:150]}")
                (case["folder"] / "model.onnx").unlink()
                (case["folder"] / "test_data_set_0").rmdir()
                case["folder"].rmdir()
                continue
            self.keep(case)
            data = case["folder"] / "test_data_set_0"
            for i, (key, array) in enumerate(case["inputs"].items()):
                self.save(data / f"input_{i}.pb", key, array)
            for i, key in enumerate(case["compared"]):
                output = outputs[key]
                array = np.frombuffer(base64.b64decode(output["data"]), TYPES[output["type"]])
                self.save(data / f"output_{i}.pb", key, array.reshape(output["dims"]))

    @staticmethod
    def keep(case):
        """Drops the outputs that are not compared from the model."""
        model = case["model"]
        graph = model.graph
        kept = [output for output in graph.output if output.name in case["compared"]]
        del graph.output[:]
        graph.output.extend(kept)
        node = graph.node[0]
        for i, name in enumerate(node.output):
            if name not in case["compared"]:
                node.output[i] = ""
        onnx.save(model, str(case["folder"] / "model.onnx"))

    @staticmethod
    def save(path, name, array):
        path.write_bytes(numpy_helper.from_array(array, name).SerializeToString())


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    cases = Cases(sys.argv[2])
    peer_cases_contrib.add_all(cases)
    peer_cases_classic.add_all(cases)
    cases.write(cases.run(sys.argv[1]))


if __name__ == "__main__":
    main()
