"""Models that PyTorch does not write: an ensemble of trees, products with 4-bit
weights, and a net in 8 bits. Needs python3-onnx."""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper

import quantised_models

ROWS = "batch"


def save(path, nodes, initializers, widths):
    """Writes a graph from x [batch, widths[0]] to y [batch, widths[1]]."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [ROWS, width])
             for name, width in zip("xy", widths)]
    graph = helper.make_graph(nodes, "graph", ports[:1], ports[1:], initializers)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3),
               helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=domains)
    model.ir_version = 8
    onnx.save(model, path)


class Forest:
    """Random trees, some of whose branches end early."""

    def __init__(self, random, trees, depth, features):
        self.random, self.depth, self.features = random, depth, features
        self.nodes = {key: [] for key in (
            "treeids", "nodeids", "featureids", "values", "modes", "truenodeids",
            "falsenodeids")}
        self.leaves = {key: [] for key in ("ids", "nodeids", "treeids", "weights")}
        for tree in range(trees):
            self.count = 0
            self.grow(tree, 0)

    def grow(self, tree, level):
        node, at = self.count, len(self.nodes["treeids"])
        self.count += 1
        for key, value in zip(self.nodes, (tree, node, 0, 0.0, "LEAF", 0, 0)):
            self.nodes[key].append(value)
        if level == self.depth or (level > 0 and self.random.random() < 0.2):
            weight = float(self.random.uniform(-1, 1))
            for key, value in zip(self.leaves, (0, node, tree, weight)):
                self.leaves[key].append(value)
            return node
        self.nodes["featureids"][at] = int(self.random.integers(self.features))
        self.nodes["values"][at] = float(self.random.uniform(-0.5, 0.5))
        self.nodes["modes"][at] = "BRANCH_LEQ"
        self.nodes["truenodeids"][at] = self.grow(tree, level + 1)
        self.nodes["falsenodeids"][at] = self.grow(tree, level + 1)
        return node


def write_forest(path):
    """100 trees of up to 10 levels over 50 features."""
    forest = Forest(numpy.random.default_rng(5), 100, 10, 50)
    lists = {f"nodes_{key}": value for key, value in forest.nodes.items()}
    lists.update({f"target_{key}": value for key, value in forest.leaves.items()})
    node = helper.make_node("TreeEnsembleRegressor", ["x"], ["y"],
                            domain="ai.onnx.ml", n_targets=1, **lists)
    save(path, [node], [], (50, 1))


def write_codes(path):
    """Four products with 4-bit weights between 2048 and 5632 numbers."""
    random = numpy.random.default_rng(1)
    nodes, initializers, block = [], [], 32
    widths = [2048, 5632, 2048, 5632, 2048]
    names = ["x", "a", "b", "c", "y"]
    for i, (rows, columns) in enumerate(zip(widths, widths[1:])):
        blocks = rows // block
        codes = random.integers(0, 256, (columns, blocks, block // 2))
        scales = random.random(columns * blocks) * 0.01
        initializers += [
            numpy_helper.from_array(codes.astype(numpy.uint8), f"codes{i}"),
            numpy_helper.from_array(scales.astype(numpy.float32), f"scales{i}")]
        nodes.append(helper.make_node(
            "MatMulNBits", [names[i], f"codes{i}", f"scales{i}"], [names[i + 1]],
            domain="com.microsoft", K=rows, N=columns, bits=4, block_size=block))
    save(path, nodes, initializers, (widths[0], widths[-1]))


# name -> function that writes the file
WRITERS = {
    "forest": write_forest, "codes4": write_codes,
    "resnet18_qdq": quantised_models.write_resnet18,
    "resnet18_folded": lambda path: quantised_models.write_resnet18(path, False)}
