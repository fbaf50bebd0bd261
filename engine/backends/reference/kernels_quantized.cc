// Codes of 8 bits: to and from real numbers, sums and convolutions.
#include <algorithm>
#include <cmath>

#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

// Returns the code of x, which is divided by its scale already. Rounds halves
// to the even neighbour, which is the rounding mode of every program. The code
// of NaN is the lowest one.
double CodeOf(double x, const CodeRange& codes) {
  if (std::isnan(x)) return codes.low;
  const double low = codes.low - codes.zero;
  const double high = codes.high - codes.zero;
  return std::clamp(std::nearbyint(x), low, high) + codes.zero;
}

double RealOf(double code, const DequantizeAttributes& of) {
  return (code - of.zero) * of.scale;
}

}  // namespace

void Quantize(const Operands& o) {
  const auto& to = o.node.get<QuantizeAttributes>();
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = CodeOf(o.in(0)[i] / to.scale, to.codes);
  }
}

void Dequantize(const Operands& o) {
  const auto& from = o.node.get<DequantizeAttributes>();
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = RealOf(o.in(0)[i], from);
  }
}

void QuantizedAdd(const Operands& o) {
  const auto& add = o.node.get<QuantizedAddAttributes>();
  for (size_t i = 0; i < o.out().size(); ++i) {
    const double sum = RealOf(o.in(0)[i], add.a) + RealOf(o.in(1)[i], add.b);
    o.out()[i] = CodeOf(sum / add.sum.scale, add.sum.codes);
  }
}

void QuantizedConv2d(const Operands& o) {
  const auto& conv = o.node.get<QuantizedConv2dAttributes>();
  Node node = o.node;
  node.op = Op::kConv2d;
  node.attributes = conv.conv;
  // Padding is 0 after the zero point is subtracted.
  Numbers centered(o.in(0).begin(), o.in(0).end());
  for (double& x : centered) x -= conv.x_zero;
  Conv2d({.node = node,
          .inputs = {centered, o.in(1)},
          .input_types = {o.input_types[0], o.input_types[1]},
          .outputs = o.outputs,
          .output_types = o.output_types});
  const Shape& y = o.out_shape();
  const auto plane = static_cast<size_t>(y.elements() / y[0] / y[1]);
  for (size_t i = 0; i < o.out().size(); ++i) {
    const size_t channel = i / plane % static_cast<size_t>(y[1]);
    const double sum = o.out()[i] + o.in(3)[channel];
    o.out()[i] = CodeOf(sum * o.in(2)[channel], conv.codes);
  }
}

}  // namespace gpupool::engine::reference
