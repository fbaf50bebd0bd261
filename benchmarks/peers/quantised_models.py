"""ResNet-18 in 8 bits, with the operators that ONNX Runtime's quantize_static writes
around those of the net (format QDQ). Weights are random. Needs python3-onnx."""

import numpy
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A graph of convolutions whose images are uint8 and whose weights are int8 with a
    scale for each filter."""

    def __init__(self, quantised):
        self.random = numpy.random.default_rng(1)
        self.quantised = quantised
        self.nodes, self.initializers, self.count = [], [], 0

    def constant(self, name, numbers):
        self.initializers.append(numpy_helper.from_array(numbers, name))
        return name

    def node(self, op, inputs, **attributes):
        self.count += 1
        name = f"{op.lower()}{self.count}"
        self.nodes.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def coded(self, x, low, high):
        """Returns x after it was turned into codes of [low, high] and back."""
        if not self.quantised:
            return self.node("Relu", [x]) if low == 0 else x
        step = numpy.float32((high - low) / 255)
        scale = self.constant(f"{x}_scale", numpy.array(step))
        zero = self.constant(f"{x}_zero", numpy.array(round(-low / step), numpy.uint8))
        codes = self.node("QuantizeLinear", [x, scale, zero])
        return self.node("DequantizeLinear", [codes, scale, zero])

    def weights(self, shape):
        """Returns weights that keep the variance of a rectified input."""
        inner = int(numpy.prod(shape[1:]))
        numbers = self.random.standard_normal(shape) * (2 / inner) ** 0.5
        name = f"w{self.count}"
        if not self.quantised:
            return self.constant(name, numbers.astype(numpy.float32))
        scales = numpy.abs(numbers).reshape(shape[0], -1).max(1) / 127
        codes = numpy.round(numbers / scales.reshape(-1, *[1] * (len(shape) - 1)))
        return self.node("DequantizeLinear", [
            self.constant(name, codes.astype(numpy.int8)),
            self.constant(f"{name}_scale", scales.astype(numpy.float32)),
            self.constant(f"{name}_zero", numpy.zeros(shape[0], numpy.int8))], axis=0)

    def conv(self, x, channels, kernel, stride, limits):
        inputs, filters = channels
        bias = self.constant(f"b{self.count}",
                             (self.random.random(filters) / 10).astype(numpy.float32))
        y = self.node("Conv", [x, self.weights([filters, inputs, kernel, kernel]), bias],
                      kernel_shape=[kernel] * 2, strides=[stride] * 2,
                      pads=[kernel // 2] * 4)
        return self.coded(y, *limits)

    def block(self, x, channels, stride):
        y = self.conv(x, channels, 3, stride, (0, 8))
        y = self.conv(y, [channels[1]] * 2, 3, 1, (-8, 8))
        if stride != 1:
            x = self.conv(x, channels, 1, stride, (-8, 8))
        return self.coded(self.node("Add", [y, x]), 0, 8)


def write_resnet18(path, quantised=True):
    net = Net(quantised)
    x = net.coded("x", -2, 2)
    x = net.conv(x, (3, 64), 7, 2, (0, 8))
    x = net.node("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    x = net.coded(x, 0, 8) if quantised else x
    width = 64
    for filters in (64, 128, 256, 512):
        x = net.block(x, (width, filters), 1 if filters == width else 2)
        x = net.block(x, (filters, filters), 1)
        width = filters
    x = net.node("Flatten", [net.node("GlobalAveragePool", [x])])
    x = net.coded(x, 0, 8) if quantised else x
    y = net.node("Gemm", [x, net.weights([1000, width])], transB=1)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", *shape])
             for name, shape in (("x", [3, 224, 224]), (y, [1000]))]
    graph = helper.make_graph(net.nodes, "resnet18", ports[:1], ports[1:],
                              net.initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 8
    onnx.save(model, path)
