// Losses with their gradients, and the count of correct answers. The rows'
// losses are summed in row order in double precision, for any number of
// threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/training/loss.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/function_kernel.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

HWY_INLINE FloatVector SumLanes(FloatVector a, FloatVector b) {
  return hn::Add(a, b);
}

// Returns log(sum(exp(x))). Subtracts the greatest number first, since exp
// overflows.
double LogSumExp(const float* x, int64_t count) {
  const float greatest = MaxOf(x, count);
  const FloatVector centre = hn::Set(FloatTag(), greatest);
  const FloatVector lanes = ReduceLanes(
      x, count, -HUGE_VALF, [&](FloatVector sum, FloatVector v) HWY_ATTR {
        const FloatVector e = ExpOf(hn::Sub(v, centre));
        // -infinity is the start value and means an empty sum.
        return hn::Add(hn::IfThenElseZero(
                           hn::Gt(sum, hn::Set(FloatTag(), -HUGE_VALF)), sum),
                       e);
      });
  const float sum = hn::GetLane(hn::SumOfLanes(FloatTag(), lanes));
  return static_cast<double>(greatest) + std::log(static_cast<double>(sum));
}

double RowSum(const float* x, int64_t count) {
  return hn::GetLane(hn::SumOfLanes(
      FloatTag(), ReduceLanes(x, count, 0.0f,
                              [](FloatVector a, FloatVector b)
                                  HWY_ATTR { return SumLanes(a, b); })));
}

// Computes (softmax(x) - smooth) * scale. The caller subtracts the label's
// share.
void CrossEntropyGradRow(const float* x, float log_sum, float smooth,
                         float scale, float* dx, int64_t count) {
  const FloatTag d;
  MapRow(x, dx, count, [&](FloatVector v) HWY_ATTR {
    const FloatVector p = ExpOf(hn::Sub(v, hn::Set(d, log_sum)));
    return hn::Mul(hn::Sub(p, hn::Set(d, smooth)), hn::Set(d, scale));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(LogSumExp);
HWY_EXPORT(RowSum);
HWY_EXPORT(CrossEntropyGradRow);

struct Table {
  int64_t rows, columns;
  int threads;
};

// Returns the number of rows that count: row_count if given, at most the batch.
int64_t CountedRows(const KernelArguments& at, int64_t rows) {
  if (at.inputs() < 3) return rows;
  return std::clamp<int64_t>(*at.in<int64_t>(2), 0, rows);
}

// Returns the number of rows whose label counts. INVALID_ARGUMENT for a label
// that is no class.
template <typename Label>
absl::StatusOr<int64_t> CheckLabels(const Label* labels, int64_t rows,
                                    int64_t classes, int64_t ignored) {
  int64_t counted = 0;
  for (int64_t r = 0; r < rows; ++r) {
    if (labels[r] == ignored) continue;
    ++counted;
    if (labels[r] >= 0 && labels[r] < classes) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("row ", r, " of the batch has the label ", labels[r],
                     "; the model has classes 0 to ", classes - 1,
                     "; give its last layer more units or correct the data"));
  }
  return counted;
}

// Returns the factor of the summed losses. It is finite even when no row
// counts.
double RowScale(const LossAttributes& loss, int64_t rows) {
  return loss.reduction == Reduction::kMean
             ? 1.0 / static_cast<double>(std::max<int64_t>(rows, 1))
             : 1.0;
}

double SumInOrder(const double* numbers, int64_t count) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += numbers[i];
  return sum;
}

template <typename Label>
KernelOr CrossEntropy(const Table& t, const LossAttributes& loss) {
  const auto log_sum_exp = HWY_DYNAMIC_DISPATCH(LogSumExp);
  const auto row_sum = HWY_DYNAMIC_DISPATCH(RowSum);
  const auto run = [=](const KernelArguments& at) -> absl::Status {
    const int64_t rows = CountedRows(at, t.rows);
    const Label* labels = at.in<Label>(1);
    const absl::StatusOr<int64_t> counted =
        CheckLabels(labels, rows, t.columns, loss.ignore_label);
    if (!counted.ok()) return counted.status();
    double* losses = at.workspace<double>();
    ParallelFor(t.threads, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* x = at.in(0) + r * t.columns;
        losses[r] = 0;
        if (labels[r] == loss.ignore_label) continue;
        const double total = log_sum_exp(x, t.columns);
        losses[r] = (1 - loss.label_smoothing) * (total - x[labels[r]]);
        if (loss.label_smoothing == 0) continue;
        losses[r] +=
            loss.label_smoothing *
            (total - row_sum(x, t.columns) / static_cast<double>(t.columns));
      }
    });
    *at.out(0) =
        static_cast<float>(SumInOrder(losses, rows) * RowScale(loss, *counted));
    return absl::OkStatus();
  };
  return MakeKernel(run, static_cast<uint64_t>(t.rows) * sizeof(double));
}

template <typename Label>
KernelOr CrossEntropyGrad(const Table& t, const LossAttributes& loss) {
  const auto log_sum_exp = HWY_DYNAMIC_DISPATCH(LogSumExp);
  const auto gradient = HWY_DYNAMIC_DISPATCH(CrossEntropyGradRow);
  const auto smooth =
      static_cast<float>(loss.label_smoothing / static_cast<double>(t.columns));
  const auto certain = static_cast<float>(1 - loss.label_smoothing);
  return MakeKernel([=](const KernelArguments& at) -> absl::Status {
    const Label* labels = at.in<Label>(1);
    const absl::StatusOr<int64_t> counted =
        CheckLabels(labels, t.rows, t.columns, loss.ignore_label);
    if (!counted.ok()) return counted.status();
    const auto scale = static_cast<float>(RowScale(loss, *counted));
    ParallelFor(t.threads, t.rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        const float* x = at.in(0) + r * t.columns;
        float* dx = at.out(0) + r * t.columns;
        if (labels[r] == loss.ignore_label) {
          std::fill_n(dx, t.columns, 0.0f);
          continue;
        }
        gradient(x, static_cast<float>(log_sum_exp(x, t.columns)), smooth,
                 scale, dx, t.columns);
        dx[labels[r]] -= certain * scale;
      }
    });
    return absl::OkStatus();
  });
}

template <typename Label>
KernelOr CorrectCount(const Table& t) {
  return MakeKernel([=](const KernelArguments& at) -> absl::Status {
    const int64_t rows = CountedRows(at, t.rows);
    int64_t correct = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const float* x = at.in(0) + r * t.columns;
      const auto best = std::max_element(x, x + t.columns) - x;
      correct += best == at.in<Label>(1)[r] ? 1 : 0;
    }
    *at.out<int64_t>(0) = correct;
    return absl::OkStatus();
  });
}

KernelOr MeanSquaredError(const Table& t, const LossAttributes& loss) {
  const auto run = [=](const KernelArguments& at) {
    const int64_t rows = CountedRows(at, t.rows);
    double* losses = at.workspace<double>();
    ParallelFor(t.threads, rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t r = begin; r < end; ++r) {
        double sum = 0;
        for (int64_t i = r * t.columns; i < (r + 1) * t.columns; ++i) {
          const double difference = double{at.in(0)[i]} - at.in(1)[i];
          sum += difference * difference;
        }
        losses[r] = sum / static_cast<double>(t.columns);
      }
    });
    *at.out(0) =
        static_cast<float>(SumInOrder(losses, rows) * RowScale(loss, rows));
    return absl::OkStatus();
  };
  return MakeKernel(run, static_cast<uint64_t>(t.rows) * sizeof(double));
}

KernelOr MeanSquaredErrorGrad(const Table& t, const LossAttributes& loss) {
  const auto scale = static_cast<float>(2.0 * RowScale(loss, t.rows) /
                                        static_cast<double>(t.columns));
  return MakeKernel([=](const KernelArguments& at) {
    ParallelFor(t.threads, t.rows * t.columns, 16,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    at.out(0)[i] = (at.in(0)[i] - at.in(1)[i]) * scale;
                  }
                });
  });
}

template <typename Label>
KernelOr MakeClassification(const CompileRequest& request, const Table& t) {
  switch (request.node.op) {
    case Op::kCrossEntropy:
      return CrossEntropy<Label>(t, request.node.get<LossAttributes>());
    case Op::kCrossEntropyGrad:
      return CrossEntropyGrad<Label>(t, request.node.get<LossAttributes>());
    default:
      return CorrectCount<Label>(t);
  }
}

}  // namespace

KernelOr MakeLoss(const CompileRequest& request, const CpuContext& context) {
  const Value& x = InputOf(request, 0);
  const int64_t rows = x.shape.rank() == 0 ? 1 : x.shape[0];
  const Table table{rows, x.shape.elements() / rows,
                    context.ThreadsForBytes(MovedBytes(request))};
  switch (request.node.op) {
    case Op::kMeanSquaredError:
      return MeanSquaredError(table, request.node.get<LossAttributes>());
    case Op::kMeanSquaredErrorGrad:
      return MeanSquaredErrorGrad(table, request.node.get<LossAttributes>());
    default:
      break;
  }
  return InputOf(request, 1).dtype == DType::kInt32
             ? MakeClassification<int32_t>(request, table)
             : MakeClassification<int64_t>(request, table);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
