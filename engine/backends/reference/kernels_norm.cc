#include <algorithm>
#include <cmath>

#include "absl/algorithm/container.h"
#include "engine/backends/reference/kernels.h"

namespace gpupool::engine::reference {
namespace {

// Divides elements into groups that are normalised together: the channels of a
// batch norm or the rows of a layer norm. `weight` is the index of gamma.
struct Groups {
  size_t count = 0;  // of groups
  size_t size = 0;   // numbers per group
  bool channels = false;
  size_t plane = 1;  // batch norm: numbers per channel and example
  size_t last = 1;   // layer norm: the last dimension

  size_t group(size_t i) const {
    return channels ? i / plane % count : i / last;
  }
  size_t weight(size_t i) const { return channels ? group(i) : i % last; }
};

Groups ChannelGroups(const Shape& x) {
  Groups g;
  g.channels = true;
  g.count = static_cast<size_t>(x[1]);
  g.size = static_cast<size_t>(x.elements()) / g.count;
  g.plane = static_cast<size_t>(x.elements() / x[0] / x[1]);
  return g;
}

Groups RowGroups(const Shape& x) {
  Groups g;
  g.last = static_cast<size_t>(x[x.rank() - 1]);
  g.size = g.last;
  g.count = g.last == 0 ? 0 : static_cast<size_t>(x.elements()) / g.last;
  return g;
}

struct Statistics {
  Numbers mean, variance;  // biased, per group
};

Statistics Measure(const Groups& groups, absl::Span<const double> x) {
  const auto size = static_cast<double>(groups.size);
  Statistics s{Numbers(groups.count, 0), Numbers(groups.count, 0)};
  // The mean comes first, so that the variance does not cancel.
  for (size_t i = 0; i < x.size(); ++i) s.mean[groups.group(i)] += x[i] / size;
  for (size_t i = 0; i < x.size(); ++i) {
    const double d = x[i] - s.mean[groups.group(i)];
    s.variance[groups.group(i)] += d * d / size;
  }
  return s;
}

void Normalise(const Operands& o, const Groups& groups,
               absl::Span<const double> mean,
               absl::Span<const double> variance) {
  const double epsilon = o.node.get<NormAttributes>().epsilon;
  for (size_t i = 0; i < o.out().size(); ++i) {
    const size_t g = groups.group(i);
    const size_t w = groups.weight(i);
    o.out()[i] =
        (o.in(0)[i] - mean[g]) / std::sqrt(variance[g] + epsilon) * o.in(1)[w] +
        o.in(2)[w];
  }
}

void NormTraining(const Operands& o, const Groups& groups) {
  const Statistics s = Measure(groups, o.in(0));
  Normalise(o, groups, s.mean, s.variance);
  if (o.outputs.size() < 3) return;
  absl::c_copy(s.mean, o.out(1).begin());
  absl::c_copy(s.variance, o.out(2).begin());
}

// With h = (x - mean) * r, r = 1/sqrt(variance + epsilon), u = dy * gamma:
//   dx = r * (u - mean of u - h * mean of (u h)), with means over the group
//   dgamma = sum of dy h, dbeta = sum of dy, over elements with the same weight
void NormGrad(const Operands& o, const Groups& groups) {
  const double epsilon = o.node.get<NormAttributes>().epsilon;
  const absl::Span<const double> dy = o.in(0);
  const auto size = static_cast<double>(groups.size);
  Numbers h(dy.size()), mean_u(groups.count, 0), mean_uh(groups.count, 0);
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t g = groups.group(i);
    const size_t w = groups.weight(i);
    h[i] = (o.in(1)[i] - o.in(3)[g]) / std::sqrt(o.in(4)[g] + epsilon);
    mean_u[g] += dy[i] * o.in(2)[w] / size;
    mean_uh[g] += dy[i] * o.in(2)[w] * h[i] / size;
    o.out(1)[w] += dy[i] * h[i];
    o.out(2)[w] += dy[i];
  }
  for (size_t i = 0; i < dy.size(); ++i) {
    const size_t g = groups.group(i);
    o.out(0)[i] =
        (dy[i] * o.in(2)[groups.weight(i)] - mean_u[g] - h[i] * mean_uh[g]) /
        std::sqrt(o.in(4)[g] + epsilon);
  }
}

}  // namespace

void BatchNormTraining(const Operands& o) {
  NormTraining(o, ChannelGroups(o.in_shape(0)));
}

void LayerNorm(const Operands& o) { NormTraining(o, RowGroups(o.in_shape(0))); }

void BatchNormTrainingGrad(const Operands& o) {
  NormGrad(o, ChannelGroups(o.in_shape(0)));
}

void LayerNormGrad(const Operands& o) { NormGrad(o, RowGroups(o.in_shape(0))); }

void BatchNormInference(const Operands& o) {
  Normalise(o, ChannelGroups(o.in_shape(0)), o.in(3), o.in(4));
}

void BatchNormUpdate(const Operands& o) {
  const auto& update = o.node.get<BatchNormUpdateAttributes>();
  const double m = update.momentum;
  const auto n = static_cast<double>(update.count);
  for (size_t c = 0; c < o.out().size(); ++c) {
    o.out(0)[c] = (1 - m) * o.in(0)[c] + m * o.in(2)[c];
    // The batch's variance is biased, the running one is not.
    o.out(1)[c] = (1 - m) * o.in(1)[c] + m * o.in(3)[c] * n / (n - 1);
  }
}

void Softmax(const Operands& o) {
  const Groups rows = RowGroups(o.in_shape(0));
  for (size_t r = 0; r < rows.count; ++r) {
    const auto x = o.in(0).begin() + static_cast<int64_t>(r * rows.last);
    // Without subtracting the greatest number, exp could overflow.
    const double top =
        *std::max_element(x, x + static_cast<int64_t>(rows.last));
    double sum = 0;
    for (size_t i = r * rows.last; i < (r + 1) * rows.last; ++i) {
      o.out()[i] = std::exp(o.in(0)[i] - top);
      sum += o.out()[i];
    }
    for (size_t i = r * rows.last; i < (r + 1) * rows.last; ++i) {
      o.out()[i] /= sum;
    }
  }
}

// Computes dx = y * (dy - sum of dy y over the row).
void SoftmaxGrad(const Operands& o) {
  const Groups rows = RowGroups(o.in_shape(0));
  Numbers dots(rows.count, 0);
  for (size_t i = 0; i < o.out().size(); ++i) {
    dots[rows.group(i)] += o.in(0)[i] * o.in(1)[i];
  }
  for (size_t i = 0; i < o.out().size(); ++i) {
    o.out()[i] = o.in(1)[i] * (o.in(0)[i] - dots[rows.group(i)]);
  }
}

// Computes w' = w * s and bias' = beta + (bias - mean) * s, with s = gamma /
// sqrt(variance + epsilon) per filter.
void FoldBatchNorm(const Operands& o) {
  const double epsilon = o.node.get<NormAttributes>().epsilon;
  const size_t filters = o.out(1).size();
  const size_t per_filter = o.out(0).size() / filters;
  for (size_t f = 0; f < filters; ++f) {
    const double s = o.in(1)[f] / std::sqrt(o.in(4)[f] + epsilon);
    const double bias = o.inputs.size() > 5 ? o.in(5)[f] : 0;
    o.out(1)[f] = o.in(2)[f] + (bias - o.in(3)[f]) * s;
    for (size_t i = f * per_filter; i < (f + 1) * per_filter; ++i) {
      o.out(0)[i] = o.in(0)[i] * s;
    }
  }
}

}  // namespace gpupool::engine::reference
