// Batched products, attention, response normalisation, log softmax.
#include <algorithm>
#include <cmath>
#include <limits>

#include "engine/backends/reference/kernels.h"
#include "engine/backends/reference/walk.h"

namespace gpupool::engine::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Returns log(sum(exp(x))), or -infinity when every number is -infinity.
double LogSumExp(absl::Span<const double> x) {
  if (x.empty()) return -kInfinity;
  const double top = *std::max_element(x.begin(), x.end());
  // infinity - infinity would be NaN.
  if (std::isinf(top)) return top;
  double sum = 0;
  for (double number : x) sum += std::exp(number - top);
  return top + std::log(sum);
}

// The operands of attention and of its gradient.
struct Heads {
  const AttentionAttributes& attributes;
  const Shape& q_shape;
  const Shape& k_shape;
  const Shape& v_shape;
  absl::Span<const double> q, k, v;
  const Shape* mask_shape;  // nullptr: no mask
  absl::Span<const double> mask;

  int64_t queries() const { return q_shape[2]; }
  int64_t keys() const { return k_shape[2]; }

  size_t Q(const Walk& row, int64_t d) const {
    return IndexOf(q_shape, {row[0], row[1], row[2], d});
  }
  size_t K(const Walk& row, int64_t s, int64_t d) const {
    return IndexOf(k_shape, {row[0], row[1], s, d});
  }
  size_t V(const Walk& row, int64_t s, int64_t e) const {
    return IndexOf(v_shape, {row[0], row[1], s, e});
  }

  // Returns the scores of the query at [batch, head, query], one per key.
  Numbers Scores(const Walk& row) const {
    Numbers scores;
    for (int64_t s = 0; s < keys(); ++s) {
      double product = 0;
      for (int64_t d = 0; d < q_shape[3]; ++d) {
        product += q[Q(row, d)] * k[K(row, s, d)];
      }
      double score = attributes.scale * product;
      if (mask_shape != nullptr) {
        score +=
            mask[BroadcastIndexOf(*mask_shape, {row[0], row[1], row[2], s}, 4)];
      }
      // The last query sees the last key, for any number of keys.
      const bool seen = !attributes.causal || s <= row[2] + keys() - queries();
      scores.push_back(seen ? score : -kInfinity);
    }
    return scores;
  }
};

// Returns the operands. `first` is the position of q among the inputs, `mask`
// that of the mask.
Heads HeadsOf(const Operands& o, size_t first, size_t mask) {
  const bool masked = o.inputs.size() > mask;
  return {.attributes = o.node.get<AttentionAttributes>(),
          .q_shape = o.in_shape(first),
          .k_shape = o.in_shape(first + 1),
          .v_shape = o.in_shape(first + 2),
          .q = o.in(first),
          .k = o.in(first + 1),
          .v = o.in(first + 2),
          .mask_shape = masked ? &o.in_shape(mask) : nullptr,
          .mask = masked ? o.in(mask) : absl::Span<const double>()};
}

// The channels [first, last] of the window around channel c.
struct Window {
  Window(const LrnAttributes& lrn, size_t c, size_t channels)
      : first(c - std::min(c, static_cast<size_t>((lrn.size - 1) / 2))),
        last(std::min(channels - 1, c + static_cast<size_t>(lrn.size / 2))) {}

  size_t first, last;
};

// The input of response normalisation.
struct LrnInput {
  const LrnAttributes& lrn;
  absl::Span<const double> x;
  Lanes lanes;  // along the channels

  // Returns bias + alpha / size * (the sum of squares around channel c).
  double Base(size_t b, size_t c, size_t a) const {
    const Window window(lrn, c, lanes.cells);
    double squares = 0;
    for (size_t j = window.first; j <= window.last; ++j) {
      squares += x[lanes.At(b, j, a)] * x[lanes.At(b, j, a)];
    }
    return lrn.bias + lrn.alpha / static_cast<double>(lrn.size) * squares;
  }
};

}  // namespace

void BatchMatMul(const Operands& o) {
  const auto& matmul = o.node.get<BatchMatMulAttributes>();
  const Shape& a = o.in_shape(0);
  const Shape& b = o.in_shape(1);
  const Shape& y = o.out_shape();
  const int64_t inner = a[a.rank() - (matmul.transpose_a ? 2 : 1)];
  const auto row = static_cast<size_t>(y.rank() - 2);
  const auto column = row + 1;
  for (Walk walk(y); !walk.done(); walk.Next()) {
    double sum = 0;
    for (int64_t i = 0; i < inner; ++i) {
      Position at_a = walk.position();
      Position at_b = walk.position();
      at_a[column] = i;
      at_b[row] = i;
      if (matmul.transpose_a) std::swap(at_a[row], at_a[column]);
      if (matmul.transpose_b) std::swap(at_b[row], at_b[column]);
      sum += o.in(0)[BroadcastIndexOf(a, at_a, y.rank())] *
             o.in(1)[BroadcastIndexOf(b, at_b, y.rank())];
    }
    o.out()[walk.index()] = matmul.scale * sum;
  }
}

void Attention(const Operands& o) {
  const Heads heads = HeadsOf(o, 0, 3);
  const Shape rows = *Shape::CreateMaybeEmpty(heads.q_shape.dims().first(3));
  const int64_t width = heads.v_shape[3];
  for (Walk row(rows); !row.done(); row.Next()) {
    const Numbers scores = heads.Scores(row);
    const double lse = LogSumExp(scores);
    if (o.outputs.size() > 1) o.out(1)[row.index()] = lse;
    // A query that sees no key gets 0.
    if (lse == -kInfinity) continue;
    // Scores of -1e30 differ from their lse by less than a double can tell.
    const double greatest = *std::max_element(scores.begin(), scores.end());
    double total = 0;
    for (const double score : scores) total += std::exp(score - greatest);
    for (int64_t s = 0; s < heads.keys(); ++s) {
      const double score = scores[static_cast<size_t>(s)];
      const double p = std::exp(score - greatest) / total;
      for (int64_t e = 0; e < width; ++e) {
        const size_t y =
            row.index() * static_cast<size_t>(width) + static_cast<size_t>(e);
        o.out()[y] += p * heads.v[heads.V(row, s, e)];
      }
    }
  }
}

// With p the softmax:
//   dv = p^T dy, ds = p * (dy v^T - sum(dy * y)),
//   dq = scale ds k, dk = scale ds^T q
void AttentionGrad(const Operands& o) {
  const Heads heads = HeadsOf(o, 1, 6);
  const Shape& lse_shape = o.in_shape(5);
  const int64_t width = heads.v_shape[3];
  for (Walk row(lse_shape); !row.done(); row.Next()) {
    const double lse = o.in(5)[row.index()];
    if (lse == -kInfinity) continue;
    const Numbers scores = heads.Scores(row);
    const absl::Span<const double> dy = o.in(0).subspan(
        row.index() * static_cast<size_t>(width), static_cast<size_t>(width));
    const absl::Span<const double> y = o.in(4).subspan(
        row.index() * static_cast<size_t>(width), static_cast<size_t>(width));
    double delta = 0;
    for (size_t e = 0; e < dy.size(); ++e) delta += dy[e] * y[e];
    for (int64_t s = 0; s < heads.keys(); ++s) {
      const double p = std::exp(scores[static_cast<size_t>(s)] - lse);
      double dp = 0;
      for (int64_t e = 0; e < width; ++e) {
        const size_t v = heads.V(row, s, e);
        o.out(2)[v] += p * dy[static_cast<size_t>(e)];
        dp += dy[static_cast<size_t>(e)] * heads.v[v];
      }
      const double ds = heads.attributes.scale * p * (dp - delta);
      for (int64_t d = 0; d < heads.q_shape[3]; ++d) {
        o.out(0)[heads.Q(row, d)] += ds * heads.k[heads.K(row, s, d)];
        o.out(1)[heads.K(row, s, d)] += ds * heads.q[heads.Q(row, d)];
      }
    }
  }
}

void Lrn(const Operands& o) {
  const auto& lrn = o.node.get<LrnAttributes>();
  const Lanes lanes(o.in_shape(0), 1);
  const LrnInput input{lrn, o.in(0), lanes};
  for (size_t b = 0; b < lanes.before; ++b) {
    for (size_t c = 0; c < lanes.cells; ++c) {
      for (size_t a = 0; a < lanes.after; ++a) {
        const double base = input.Base(b, c, a);
        const size_t i = lanes.At(b, c, a);
        o.out()[i] = o.in(0)[i] * std::pow(base, -lrn.beta);
      }
    }
  }
}

// Computes
// dx_j = dy_j base_j^-beta - 2 alpha beta / size x_j *
//        sum over the c whose window holds j of dy_c x_c base_c^(-beta - 1).
void LrnGrad(const Operands& o) {
  const auto& lrn = o.node.get<LrnAttributes>();
  const absl::Span<const double> dy = o.in(0);
  const absl::Span<const double> x = o.in(1);
  const Lanes lanes(o.in_shape(1), 1);
  const LrnInput input{lrn, x, lanes};
  const double factor =
      2 * lrn.alpha * lrn.beta / static_cast<double>(lrn.size);
  for (size_t b = 0; b < lanes.before; ++b) {
    for (size_t c = 0; c < lanes.cells; ++c) {
      const Window window(lrn, c, lanes.cells);
      for (size_t a = 0; a < lanes.after; ++a) {
        const double base = input.Base(b, c, a);
        const size_t i = lanes.At(b, c, a);
        o.out()[i] += dy[i] * std::pow(base, -lrn.beta);
        const double through =
            factor * dy[i] * x[i] * std::pow(base, -lrn.beta - 1);
        // The sum goes the other way round: channel c adds to each j of its
        // window.
        for (size_t j = window.first; j <= window.last; ++j) {
          o.out()[lanes.At(b, j, a)] -= through * x[lanes.At(b, j, a)];
        }
      }
    }
  }
}

void LogSoftmax(const Operands& o) {
  const Shape& x = o.in_shape(0);
  const auto width = static_cast<size_t>(x[x.rank() - 1]);
  for (size_t i = 0; i < o.in(0).size(); i += width) {
    const absl::Span<const double> row = o.in(0).subspan(i, width);
    const double lse = LogSumExp(row);
    for (size_t k = 0; k < width; ++k) o.out()[i + k] = row[k] - lse;
  }
}

// Computes dx = dy - exp(y) * the sum of dy over the row.
void LogSoftmaxGrad(const Operands& o) {
  const Shape& y = o.in_shape(1);
  const auto width = static_cast<size_t>(y[y.rank() - 1]);
  for (size_t i = 0; i < o.in(1).size(); i += width) {
    double sum = 0;
    for (size_t k = 0; k < width; ++k) sum += o.in(0)[i + k];
    for (size_t k = 0; k < width; ++k) {
      o.out()[i + k] = o.in(0)[i + k] - std::exp(o.in(1)[i + k]) * sum;
    }
  }
}

}  // namespace gpupool::engine::reference
