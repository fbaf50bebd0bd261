"""Changes exported files as tools for deployment do."""
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def constants(graph):
    """Yields every stored tensor of the graph."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.TENSOR:
                yield attribute.t


def to_float16(model):
    """Gives everything of float32 the type float16."""
    for tensor in constants(model.graph):
        if tensor.data_type == TensorProto.FLOAT:
            numbers = numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(numpy_helper.from_array(numbers, tensor.name))
    for node in model.graph.node:
        for attribute in node.attribute:
            if node.op_type == "Cast" and attribute.i == TensorProto.FLOAT:
                attribute.i = TensorProto.FLOAT16
    for port in [*model.graph.input, *model.graph.output, *model.graph.value_info]:
        kind = port.type.tensor_type
        if kind.elem_type == TensorProto.FLOAT:
            kind.elem_type = TensorProto.FLOAT16
    return model


def stored(graph):
    return {tensor.name: tensor for tensor in graph.initializer}


def weight_of(graph, node):
    """Returns a product's matrix [in, out] and its bias, or nothing."""
    tensors = stored(graph)
    made = {n.output[0]: n for n in graph.node}
    weight, bias = node.input[1], None
    if node.op_type == "Gemm" and weight in tensors:
        turn = any(a.name == "transB" and a.i for a in node.attribute)
        matrix = numpy_helper.to_array(tensors[weight])
        bias = node.input[2] if len(node.input) > 2 else None
        return (matrix.T if turn else matrix), bias
    if node.op_type == "MatMul":
        maker = made.get(weight)
        if maker is not None and maker.op_type == "Transpose" and maker.input[0] in tensors:
            return numpy_helper.to_array(tensors[maker.input[0]]).T, None
        if weight in tensors:
            return numpy_helper.to_array(tensors[weight]), None
    return None, None


def quantized_product(node, matrix, bias):
    """Returns the nodes and tensors of one product of 8-bit numbers."""
    name = node.output[0].replace("/", "_") + ".q"
    scale = np.float32(max(np.abs(matrix).max(), 1e-6) / 127)
    tensors = [numpy_helper.from_array(np.clip(np.round(matrix / scale), -127, 127)
                                       .astype(np.int8), name + "w"),
               numpy_helper.from_array(scale, name + "s")]
    last = name + "y" if bias else node.output[0]
    nodes = [
        helper.make_node("DynamicQuantizeLinear", [node.input[0]],
                         [name + "x", name + "xs", name + "xz"]),
        helper.make_node("MatMulInteger", [name + "x", name + "w", name + "xz"], [name + "i"]),
        helper.make_node("Cast", [name + "i"], [name + "f"], to=TensorProto.FLOAT),
        helper.make_node("Mul", [name + "xs", name + "s"], [name + "m"]),
        helper.make_node("Mul", [name + "f", name + "m"], [last])]
    if bias:
        nodes.append(helper.make_node("Add", [last, bias], [node.output[0]]))
    return nodes, tensors


def to_dynamic_quantized(model):
    """Makes products with weights products of integers, as dynamic quantisation does."""
    graph, nodes = model.graph, []
    for node in graph.node:
        matrix, bias = (weight_of(graph, node) if node.op_type in ("Gemm", "MatMul")
                        else (None, None))
        if matrix is None:
            nodes.append(node)
            continue
        made, tensors = quantized_product(node, matrix, bias)
        nodes.extend(made)
        graph.initializer.extend(tensors)
    del graph.node[:]
    graph.node.extend(nodes)
    return model
