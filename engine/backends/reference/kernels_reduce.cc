// Reductions and running sums.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

// The lanes along one axis: `count` elements that are `stride` apart.
struct Slices {
  size_t count = 0;
  size_t stride = 1;

  // Returns the index of lane `lane`'s first element.
  size_t begin(size_t lane) const {
    return lane / stride * stride * count + lane % stride;
  }
};

Slices SlicesOf(const Shape& x, int axis) {
  Slices lanes{static_cast<size_t>(x[axis])};
  for (int i = axis + 1; i < x.rank(); ++i) {
    lanes.stride *= static_cast<size_t>(x[i]);
  }
  return lanes;
}

struct Range {
  double least, greatest;
};

template <typename T>
Range RangeOf() {
  return {static_cast<double>(std::numeric_limits<T>::lowest()),
          static_cast<double>(std::numeric_limits<T>::max())};
}

Range RangeOf(DType dtype) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  switch (dtype) {
    case DType::kInt32:
      return RangeOf<int32_t>();
    case DType::kInt64:
      return RangeOf<int64_t>();
    case DType::kUint8:
      return RangeOf<uint8_t>();
    case DType::kInt8:
      return RangeOf<int8_t>();
    case DType::kBool:
      return {0, 1};
    default:
      return {-kInfinity, kInfinity};
  }
}

// Returns the result of a reduction of no elements.
double Neutral(ReduceFunction function, DType dtype) {
  switch (function) {
    case ReduceFunction::kSum:
    case ReduceFunction::kMean:
      return 0;
    case ReduceFunction::kProduct:
      return 1;
    case ReduceFunction::kMax:
      return RangeOf(dtype).least;
    case ReduceFunction::kMin:
      return RangeOf(dtype).greatest;
  }
  return 0;
}

double Accumulate(ReduceFunction function, double total, double x) {
  switch (function) {
    case ReduceFunction::kSum:
    case ReduceFunction::kMean:
      return total + x;
    case ReduceFunction::kProduct:
      return total * x;
    case ReduceFunction::kMax:
      // NaN wins over every number.
      return x > total || std::isnan(x) ? x : total;
    case ReduceFunction::kMin:
      return x < total || std::isnan(x) ? x : total;
  }
  return total;
}

// Returns each input axis' stride in the output. Reduced axes have stride 0.
std::vector<int64_t> OutputStrides(const Shape& x, absl::Span<const int> axes) {
  std::vector<int64_t> strides(static_cast<size_t>(x.rank()), 0);
  int64_t stride = 1;
  for (int i = x.rank() - 1; i >= 0; --i) {
    if (std::find(axes.begin(), axes.end(), i) != axes.end()) continue;
    strides[static_cast<size_t>(i)] = stride;
    stride *= x[i];
  }
  return strides;
}

// Returns whether x is nearer to the wanted end than `best`. NaN beats every
// number.
bool Better(const ArgReduceAttributes& reduce, double x, double best) {
  if (std::isnan(best)) return reduce.last && std::isnan(x);
  if (std::isnan(x)) return true;
  if (x == best) return reduce.last;
  return (x > best) == reduce.maximum;
}

}  // namespace

void Reduce(const Operands& o) {
  const auto& reduce = o.node.get<ReduceAttributes>();
  const Shape& x = o.in_shape(0);
  const DType dtype = o.input_types[0].dtype;
  const absl::Span<double> y = o.out();
  std::fill(y.begin(), y.end(), Neutral(reduce.function, dtype));
  const std::vector<int64_t> strides = OutputStrides(x, reduce.axes);
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    auto rest = static_cast<int64_t>(i);
    int64_t at = 0;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      at += rest % x[axis] * strides[static_cast<size_t>(axis)];
      rest /= x[axis];
    }
    double& total = y[static_cast<size_t>(at)];
    total = Accumulate(reduce.function, total, o.in(0)[i]);
  }
  if (reduce.function != ReduceFunction::kMean || y.empty()) return;
  const double count =
      static_cast<double>(o.in(0).size()) / static_cast<double>(y.size());
  for (double& mean : y) {
    mean /= count;
    // Integer division truncates.
    if (!IsFloating(dtype)) mean = std::trunc(mean);
  }
}

void ArgReduce(const Operands& o) {
  const auto& reduce = o.node.get<ArgReduceAttributes>();
  const Slices lanes = SlicesOf(o.in_shape(0), reduce.axis);
  for (size_t lane = 0; lane < o.out().size(); ++lane) {
    const double* x = o.in(0).data() + lanes.begin(lane);
    size_t best = 0;
    for (size_t k = 1; k < lanes.count; ++k) {
      if (Better(reduce, x[k * lanes.stride], x[best * lanes.stride])) best = k;
    }
    o.out()[lane] = static_cast<double>(best);
  }
}

void CumSum(const Operands& o) {
  const auto& sum = o.node.get<CumSumAttributes>();
  if (o.out().empty()) return;
  const Slices lanes = SlicesOf(o.in_shape(0), sum.axis);
  for (size_t lane = 0; lane < o.out().size() / lanes.count; ++lane) {
    double total = 0;
    for (size_t k = 0; k < lanes.count; ++k) {
      const size_t cell = sum.reverse ? lanes.count - 1 - k : k;
      const size_t at = lanes.begin(lane) + cell * lanes.stride;
      if (sum.exclusive) o.out()[at] = total;
      total += o.in(0)[at];
      if (!sum.exclusive) o.out()[at] = total;
    }
  }
}

}  // namespace gpupool::engine::reference
