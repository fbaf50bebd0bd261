#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/backends/reference/kernels.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::reference {
namespace {

// Returns the number of rows that count: row_count if given, at most the batch.
size_t Rows(const Operands& o) {
  const auto rows = static_cast<size_t>(o.in_shape(0)[0]);
  if (o.inputs.size() < 3) return rows;
  return static_cast<size_t>(
      std::clamp(o.in(2)[0], 0.0, static_cast<double>(rows)));
}

size_t Classes(const Operands& o) {
  return static_cast<size_t>(o.in_shape(0)[1]);
}

absl::StatusOr<size_t> Label(const Operands& o, size_t row) {
  const double label = o.in(1)[row];
  if (label >= 0 && label < static_cast<double>(Classes(o))) {
    return static_cast<size_t>(label);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "label ", label, " of row ", row, " is not in 0 .. ", Classes(o) - 1));
}

double FiniteLogSumExp(const double* x, size_t count) {
  const double top = *std::max_element(x, x + count);
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += std::exp(x[i] - top);
  return top + std::log(sum);
}

// Returns the divisor of the loss. It is 1 unless the mean is wanted.
double Denominator(const Operands& o, size_t rows) {
  return o.node.get<LossAttributes>().reduction == Reduction::kMean
             ? static_cast<double>(rows)
             : 1;
}

bool Ignored(const Operands& o, size_t row) {
  return o.in(1)[row] ==
         static_cast<double>(o.node.get<LossAttributes>().ignore_label);
}

// Returns how many of the first `rows` count. At least 1, so that nothing
// divides by 0.
size_t CountedRows(const Operands& o, size_t rows) {
  size_t counted = 0;
  for (size_t r = 0; r < rows; ++r) counted += Ignored(o, r) ? 0 : 1;
  return std::max<size_t>(counted, 1);
}

}  // namespace

// The loss of a row is -(1 - s) log p[label] - s / classes * sum of log p.
absl::Status CrossEntropy(const Operands& o) {
  const double s = o.node.get<LossAttributes>().label_smoothing;
  const size_t classes = Classes(o);
  const size_t rows = Rows(o);
  double total = 0;
  for (size_t r = 0; r < rows; ++r) {
    if (Ignored(o, r)) continue;
    ASSIGN_OR_RETURN(const size_t label, Label(o, r));
    const double* x = o.in(0).data() + r * classes;
    const double norm = FiniteLogSumExp(x, classes);
    double all = 0;
    for (size_t c = 0; c < classes; ++c) all += norm - x[c];
    total +=
        (1 - s) * (norm - x[label]) + s / static_cast<double>(classes) * all;
  }
  o.out()[0] = total / Denominator(o, CountedRows(o, rows));
  return absl::OkStatus();
}

absl::Status CrossEntropyGrad(const Operands& o) {
  const double s = o.node.get<LossAttributes>().label_smoothing;
  const size_t classes = Classes(o);
  const size_t rows = Rows(o);
  const double divisor = Denominator(o, CountedRows(o, rows));
  for (size_t r = 0; r < rows; ++r) {
    if (Ignored(o, r)) {
      std::fill_n(o.out().begin() + static_cast<std::ptrdiff_t>(r * classes),
                  classes, 0.0);
      continue;
    }
    ASSIGN_OR_RETURN(const size_t label, Label(o, r));
    const double* x = o.in(0).data() + r * classes;
    const double norm = FiniteLogSumExp(x, classes);
    for (size_t c = 0; c < classes; ++c) {
      const double wanted =
          (c == label ? 1 - s : 0) + s / static_cast<double>(classes);
      o.out()[r * classes + c] = (std::exp(x[c] - norm) - wanted) / divisor;
    }
  }
  return absl::OkStatus();
}

absl::Status CorrectCount(const Operands& o) {
  const size_t classes = Classes(o);
  for (size_t r = 0; r < Rows(o); ++r) {
    ASSIGN_OR_RETURN(const size_t label, Label(o, r));
    const double* x = o.in(0).data() + r * classes;
    const auto best = static_cast<size_t>(std::max_element(x, x + classes) - x);
    if (best == label) o.out()[0] += 1;
  }
  return absl::OkStatus();
}

void MeanSquaredError(const Operands& o) {
  const size_t rows = Rows(o);
  const size_t per_row = o.in(0).size() / static_cast<size_t>(o.in_shape(0)[0]);
  double total = 0;
  for (size_t i = 0; i < rows * per_row; ++i) {
    const double d = o.in(0)[i] - o.in(1)[i];
    total += d * d / static_cast<double>(per_row);
  }
  o.out()[0] = total / Denominator(o, rows);
}

void MeanSquaredErrorGrad(const Operands& o) {
  const auto count = static_cast<double>(o.in(0).size());
  for (size_t i = 0; i < o.in(0).size(); ++i) {
    o.out()[i] = 2 * (o.in(0)[i] - o.in(1)[i]) / count;
  }
}

void GlobalNorm(const Operands& o) {
  double squares = 0;
  for (const absl::Span<const double> gradient : o.inputs) {
    for (double g : gradient) squares += g * g;
  }
  o.out()[0] = std::sqrt(squares);
}

// Copies the gradients. All ranks have the same ones here, so the mean is each
// rank's own.
void AllReduceStart(const Operands& o) {
  auto flat = o.out().begin();
  for (const absl::Span<const double> gradient : o.inputs) {
    flat = std::copy(gradient.begin(), gradient.end(), flat);
  }
}

void AllReduceWait(const Operands& o) {
  size_t flat = 0, begin = 0;
  for (size_t i = 0; i < o.outputs.size(); ++i) {
    for (double& number : o.out(i)) {
      if (begin == o.in(flat).size()) {
        ++flat;
        begin = 0;
      }
      number = o.in(flat)[begin++];
    }
  }
}

}  // namespace gpupool::engine::reference
