#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/backends/portable/training/loss_functors.h"

namespace gpupool::engine::portable {
namespace {

uint64_t DoubleBytes(int64_t count) {
  return static_cast<uint64_t>(count) * sizeof(double);
}

// Returns the rows of labels without the addresses of a run.
LabelRows LabelsOf(const CompileRequest& request,
                   const PortableContext& context) {
  const Value& logits = InputOf(request, 0);
  LabelRows rows;
  rows.wide = InputOf(request, 1).dtype == DType::kInt64;
  rows.rows = logits.shape[0];
  rows.classes = logits.shape[1];
  rows.error = ErrorPlaceOf(request, context);
  if (request.node.op != Op::kCorrectCount) {
    rows.ignores = true;
    rows.ignored = request.node.get<LossAttributes>().ignore_label;
  }
  return rows;
}

// Adds the addresses of a run.
LabelRows BoundTo(const KernelArguments& at, LabelRows rows) {
  rows.labels = at.in<void>(1);
  rows.row_count = at.inputs() > 2 ? at.in<int64_t>(2) : nullptr;
  return rows;
}

template <typename T>
std::unique_ptr<Kernel> MakeCrossEntropy(const CompileRequest& request,
                                         const PortableContext& context) {
  const LossAttributes loss = request.node.get<LossAttributes>();
  const LabelRows labels = LabelsOf(request, context);
  const DType type = OutputOf(request, 0).dtype;
  return MakeKernel(
      [=, stream = context.stream](const KernelArguments& at) {
        // The workspace has one loss per row. The second launch adds them up.
        auto* losses = at.workspace<double>();
        const LabelRows rows = BoundTo(at, labels);
        LaunchRows(stream, rows.rows,
                   CrossEntropyFunctor<T>{at.in<T>(0), losses, rows,
                                          loss.label_smoothing});
        LossFunctor total;
        total.numbers = losses;
        total.parts = rows.rows;
        total.divisor = loss.reduction == Reduction::kMean
                            ? LossDivisor::kCounted
                            : LossDivisor::kNone;
        total.rows = rows;
        total.y = at.out<void>(0);
        total.type = type;
        LaunchRows(stream, 1, total);
      },
      DoubleBytes(labels.rows));
}

template <typename T>
std::unique_ptr<Kernel> MakeCrossEntropyGrad(const CompileRequest& request,
                                             const PortableContext& context) {
  const LossAttributes loss = request.node.get<LossAttributes>();
  const LabelRows labels = LabelsOf(request, context);
  const bool mean = loss.reduction == Reduction::kMean;
  return MakeKernel(
      [=, stream = context.stream](const KernelArguments& at) {
        const LabelRows rows = BoundTo(at, labels);
        double* divisor = mean ? at.workspace<double>() : nullptr;
        // The launch below reads the divisor.
        if (mean) LaunchRows(stream, 1, DivisorFunctor{rows, divisor});
        LaunchRows(
            stream, rows.rows,
            CrossEntropyGradFunctor<T>{at.in<T>(0), at.out<T>(0), divisor, rows,
                                       loss.label_smoothing});
      },
      DoubleBytes(1));
}

template <typename T>
std::unique_ptr<Kernel> MakeCorrectCount(const CompileRequest& request,
                                         const PortableContext& context) {
  const LabelRows labels = LabelsOf(request, context);
  return MakeKernel(
      [=, stream = context.stream](const KernelArguments& at) {
        auto* right = at.workspace<double>();
        const LabelRows rows = BoundTo(at, labels);
        LaunchRows(stream, rows.rows,
                   CorrectFunctor<T>{at.in<T>(0), right, rows});
        LossFunctor total;
        // A correct row gives 1, so the sum is the count.
        total.numbers = right;
        total.parts = rows.rows;
        total.y = at.out<void>(0);
        total.type = DType::kInt64;
        LaunchRows(stream, 1, total);
      },
      DoubleBytes(labels.rows));
}

template <typename T>
std::unique_ptr<Kernel> MakeSquaredError(const CompileRequest& request,
                                         const PortableContext& context) {
  const Value& x = InputOf(request, 0);
  LabelRows all;
  all.rows = x.shape[0];
  const int64_t per_row = x.shape.elements() / all.rows;
  // Each sum covers a piece of the elements, regardless of rows.
  const int64_t pieces =
      CeilDivide(x.shape.elements(), SquaredErrorFunctor<T>::kPiece);
  const bool mean =
      request.node.get<LossAttributes>().reduction == Reduction::kMean;
  const DType type = x.dtype;
  return MakeKernel(
      [=, stream = context.stream](const KernelArguments& at) {
        auto* sums = at.workspace<double>();
        LabelRows rows = all;
        if (at.inputs() > 2) rows.row_count = at.in<int64_t>(2);
        LaunchRows(stream, pieces,
                   SquaredErrorFunctor<T>{at.in<T>(0), at.in<T>(1), sums, rows,
                                          per_row});
        LossFunctor total;
        total.numbers = sums;
        total.parts = pieces;
        total.divisor = mean ? LossDivisor::kRows : LossDivisor::kNone;
        total.factor = 1.0 / static_cast<double>(per_row);
        total.rows = rows;
        total.y = at.out<void>(0);
        total.type = type;
        LaunchRows(stream, 1, total);
      },
      DoubleBytes(pieces));
}

template <typename T>
std::unique_ptr<Kernel> MakeSquaredErrorGrad(const CompileRequest& request,
                                             const PortableContext& context) {
  const int64_t count = InputOf(request, 0).shape.elements();
  // The mean over rows and numbers is one mean over all elements.
  const double factor = 2.0 / static_cast<double>(count);
  return MakeKernel([=, stream = context.stream](const KernelArguments& at) {
    LaunchFor(stream, count,
              SquaredErrorGradFunctor<T>{at.in<T>(0), at.in<T>(1), at.out<T>(0),
                                         factor});
  });
}

template <typename T>
std::unique_ptr<Kernel> MakeLossOf(const CompileRequest& request,
                                   const PortableContext& context) {
  switch (request.node.op) {
    case Op::kCrossEntropy:
      return MakeCrossEntropy<T>(request, context);
    case Op::kCrossEntropyGrad:
      return MakeCrossEntropyGrad<T>(request, context);
    case Op::kCorrectCount:
      return MakeCorrectCount<T>(request, context);
    case Op::kMeanSquaredError:
      return MakeSquaredError<T>(request, context);
    case Op::kMeanSquaredErrorGrad:
      return MakeSquaredErrorGrad<T>(request, context);
    default:
      return nullptr;
  }
}

}  // namespace

KernelOr MakeLoss(const CompileRequest& request,
                  const PortableContext& context) {
  return ForFloating(InputOf(request, 0).dtype, [&](auto tag) {
    return MakeLossOf<typename decltype(tag)::Type>(request, context);
  });
}

}  // namespace gpupool::engine::portable
