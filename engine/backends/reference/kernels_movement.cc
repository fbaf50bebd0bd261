// Transpose, slice, pad, concat, top k, random numbers and resize.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <vector>

#include "engine/backends/reference/kernels.h"
#include "engine/backends/reference/walk.h"
#include "engine/base/philox.h"

namespace gpupool::engine::reference {
namespace {

constexpr double kTwoPi = 6.28318530717958647693;

// Returns the source of a cell of the sliced value.
Position SliceSource(const SliceAttributes& slice, const Walk& walk, int rank) {
  Position source{};
  for (int axis = 0; axis < rank; ++axis) {
    const auto i = static_cast<size_t>(axis);
    source[i] = slice.starts[i] + walk[axis] * slice.steps[i];
  }
  return source;
}

// Returns the source of a cell of the padded value, or nullopt for padding.
std::optional<Position> PadSource(const PadAttributes& pad, const Walk& walk,
                                  const Shape& unpadded) {
  Position source{};
  for (int axis = 0; axis < unpadded.rank(); ++axis) {
    const auto i = static_cast<size_t>(axis);
    const int64_t last = unpadded[axis] - 1;
    int64_t at = walk[axis] - pad.before[i];
    if (pad.mode == PadMode::kConstant && (at < 0 || at > last)) {
      return std::nullopt;
    }
    if (pad.mode == PadMode::kReflect && at < 0) at = -at;
    if (pad.mode == PadMode::kReflect && at > last) at = 2 * last - at;
    source[i] = std::clamp<int64_t>(at, 0, std::max<int64_t>(last, 0));
  }
  return source;
}

// Returns whether `a` comes before `b`. NaN counts as larger than every number,
// as in PyTorch.
bool Precedes(bool largest, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) {
    return largest ? std::isnan(a) && !std::isnan(b)
                   : !std::isnan(a) && std::isnan(b);
  }
  return largest ? a > b : a < b;
}

// Resizes one axis, by a linear map of each lane's cells.
Numbers ResizeAlong(const ResizeAxis& axis, absl::Span<const double> x,
                    const Lanes& lanes) {
  const auto size = static_cast<size_t>(axis.size);
  const auto taps = static_cast<size_t>(axis.taps);
  Numbers y(lanes.before * size * lanes.after, 0);
  for (size_t b = 0; b < lanes.before; ++b) {
    for (size_t o = 0; o < size; ++o) {
      for (size_t t = o * taps; t < (o + 1) * taps; ++t) {
        const auto cell = static_cast<size_t>(axis.indices[t]);
        // A weight of 0 means that the cell has no part, even when it is NaN.
        if (axis.weights[t] == 0) continue;
        for (size_t a = 0; a < lanes.after; ++a) {
          y[(b * size + o) * lanes.after + a] +=
              axis.weights[t] * x[lanes.At(b, cell, a)];
        }
      }
    }
  }
  return y;
}

// Applies the transposed map. `lanes` are those of dx.
Numbers ResizeGradAlong(const ResizeAxis& axis, absl::Span<const double> dy,
                        const Lanes& lanes) {
  const auto size = static_cast<size_t>(axis.size);
  const auto taps = static_cast<size_t>(axis.taps);
  Numbers dx(lanes.before * lanes.cells * lanes.after, 0);
  for (size_t b = 0; b < lanes.before; ++b) {
    for (size_t o = 0; o < size; ++o) {
      for (size_t t = o * taps; t < (o + 1) * taps; ++t) {
        const auto cell = static_cast<size_t>(axis.indices[t]);
        if (axis.weights[t] == 0) continue;
        for (size_t a = 0; a < lanes.after; ++a) {
          dx[lanes.At(b, cell, a)] +=
              axis.weights[t] * dy[(b * size + o) * lanes.after + a];
        }
      }
    }
  }
  return dx;
}

// Returns `shape` with the axis' size after the resize.
Shape Resized(const Shape& shape, const ResizeAxis& axis) {
  std::vector<int64_t> dims(shape.dims().begin(), shape.dims().end());
  dims[static_cast<size_t>(axis.axis)] = axis.size;
  return *Shape::CreateMaybeEmpty(dims);
}

}  // namespace

void Transpose(const Operands& o) {
  const auto& permutation = o.node.get<TransposeAttributes>().permutation;
  const Shape& x = o.in_shape(0);
  for (Walk walk(o.out_shape()); !walk.done(); walk.Next()) {
    Position source{};
    for (int axis = 0; axis < x.rank(); ++axis) {
      const int from = permutation[static_cast<size_t>(axis)];
      source[static_cast<size_t>(from)] = walk[axis];
    }
    o.out()[walk.index()] = o.in(0)[IndexOf(x, source)];
  }
}

void Slice(const Operands& o) {
  const auto& slice = o.node.get<SliceAttributes>();
  const Shape& x = o.in_shape(0);
  for (Walk walk(o.out_shape()); !walk.done(); walk.Next()) {
    o.out()[walk.index()] =
        o.in(0)[IndexOf(x, SliceSource(slice, walk, x.rank()))];
  }
}

void SliceGrad(const Operands& o) {
  const auto& slice = o.node.get<SliceGradAttributes>().slice;
  const Shape& dx = o.out_shape();
  for (Walk walk(o.in_shape(0)); !walk.done(); walk.Next()) {
    o.out()[IndexOf(dx, SliceSource(slice, walk, dx.rank()))] =
        o.in(0)[walk.index()];
  }
}

void Pad(const Operands& o) {
  const auto& pad = o.node.get<PadAttributes>();
  const Shape& x = o.in_shape(0);
  for (Walk walk(o.out_shape()); !walk.done(); walk.Next()) {
    const std::optional<Position> source = PadSource(pad, walk, x);
    o.out()[walk.index()] =
        source.has_value() ? o.in(0)[IndexOf(x, *source)] : pad.value;
  }
}

void PadGrad(const Operands& o) {
  const auto& pad = o.node.get<PadAttributes>();
  const Shape& dx = o.out_shape();
  for (Walk walk(o.in_shape(0)); !walk.done(); walk.Next()) {
    const std::optional<Position> source = PadSource(pad, walk, dx);
    if (source.has_value()) {
      o.out()[IndexOf(dx, *source)] += o.in(0)[walk.index()];
    }
  }
}

void Concat(const Operands& o) {
  const auto axis = static_cast<size_t>(o.node.get<AxisAttributes>().axis);
  int64_t begin = 0;
  for (size_t i = 0; i < o.inputs.size(); ++i) {
    const Shape& x = o.in_shape(i);
    for (Walk walk(x); !walk.done(); walk.Next()) {
      Position target = walk.position();
      target[axis] += begin;
      o.out()[IndexOf(o.out_shape(), target)] = o.in(i)[walk.index()];
    }
    begin += x[static_cast<int>(axis)];
  }
}

// Equal elements keep their order.
void TopK(const Operands& o) {
  const auto& top = o.node.get<TopKAttributes>();
  const Lanes x(o.in_shape(0), top.axis);
  const Lanes y(o.out_shape(), top.axis);
  for (size_t b = 0; b < x.before; ++b) {
    for (size_t a = 0; a < x.after; ++a) {
      const auto number = [&](size_t cell) {
        return o.in(0)[x.At(b, cell, a)];
      };
      std::vector<size_t> order(x.cells);
      std::iota(order.begin(), order.end(), size_t{0});
      std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) {
        return Precedes(top.largest, number(i), number(j));
      });
      for (size_t k = 0; k < y.cells; ++k) {
        o.out(0)[y.At(b, k, a)] = number(order[k]);
        o.out(1)[y.At(b, k, a)] = static_cast<double>(order[k]);
      }
    }
  }
}

// Draws random numbers. Normal numbers come in pairs, from two words each (Box
// and Muller 1958).
void Random(const Operands& o) {
  const auto& random = o.node.get<RandomAttributes>();
  const auto seed = static_cast<uint64_t>(static_cast<int64_t>(o.in(0)[0]));
  const auto step = static_cast<uint64_t>(static_cast<int64_t>(o.in(1)[0]));
  for (size_t i = 0; i < o.out().size(); ++i) {
    const auto words = PhiloxBlock(seed, random.stream, step << 32 | i / 4);
    const size_t word = i % 4;
    if (random.distribution == RandomDistribution::kUniform) {
      const double u = PhiloxUniformFloat(words[word]);
      o.out()[i] = random.first + (random.second - random.first) * u;
      continue;
    }
    // More than 0, so that the logarithm is finite.
    const double u = 1.0 - PhiloxUniformFloat(words[word & ~size_t{1}]);
    const double angle = kTwoPi * PhiloxUniformFloat(words[word | 1]);
    const double wave = word % 2 == 0 ? std::cos(angle) : std::sin(angle);
    o.out()[i] =
        random.first + random.second * std::sqrt(-2 * std::log(u)) * wave;
  }
}

void Resize(const Operands& o) {
  Numbers numbers(o.in(0).begin(), o.in(0).end());
  Shape shape = o.in_shape(0);
  for (const ResizeAxis& axis : o.node.get<ResizeAttributes>().axes) {
    numbers = ResizeAlong(axis, numbers, Lanes(shape, axis.axis));
    shape = Resized(shape, axis);
  }
  std::copy(numbers.begin(), numbers.end(), o.out().begin());
}

void ResizeGrad(const Operands& o) {
  const auto& grad = o.node.get<ResizeGradAttributes>();
  // The shapes before each axis is resized.
  std::vector<Shape> shapes{grad.input};
  for (const ResizeAxis& axis : grad.resize.axes) {
    shapes.push_back(Resized(shapes.back(), axis));
  }
  Numbers numbers(o.in(0).begin(), o.in(0).end());
  // The gradient goes through the axes in reverse order.
  for (size_t i = grad.resize.axes.size(); i-- > 0;) {
    const ResizeAxis& axis = grad.resize.axes[i];
    numbers = ResizeGradAlong(axis, numbers, Lanes(shapes[i], axis.axis));
  }
  std::copy(numbers.begin(), numbers.end(), o.out().begin());
}

}  // namespace gpupool::engine::reference
