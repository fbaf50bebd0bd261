// Support vector machines of ai.onnx.ml. The scores of LIBSVM's format (Chang
// and Lin 2011, LIBSVM: a library for support vector machines, sections 2 and
// 8) are products with matrices that are made at import.
#include <numeric>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/classic/classic_parts.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

enum class KernelType : uint8_t { kLinear, kPolynomial, kRadial, kSigmoid };

struct SvmKernel {
  KernelType type = KernelType::kLinear;
  double gamma = 0, coef0 = 0, degree = 0;
};

absl::StatusOr<SvmKernel> ReadKernel(NodeContext& ctx) {
  SvmKernel kernel;
  ASSIGN_OR_RETURN(
      const int type,
      Choice(ctx, "kernel_type", {"LINEAR", "POLY", "RBF", "SIGMOID"}));
  kernel.type = static_cast<KernelType>(type);
  ASSIGN_OR_RETURN(const std::vector<double> numbers,
                   ctx.Floats("kernel_params", {}));
  if (numbers.empty() && kernel.type == KernelType::kLinear) return kernel;
  if (numbers.size() != 3) {
    return ctx.Refuse("'kernel_params' has ", numbers.size(),
                      " numbers and needs 3: gamma, coef0 and degree");
  }
  kernel.gamma = numbers[0];
  kernel.coef0 = numbers[1];
  kernel.degree = numbers[2];
  return kernel;
}

absl::StatusOr<ValueId> TimesRows(NodeContext& ctx, ValueId x, ValueId rows) {
  MatMulAttributes product;
  product.transpose_b = true;
  return ctx.Emit(Op::kMatMul, {x, rows}, product);
}

// Returns the squared distances of rows of x [n, features] and of support
// vectors [m, features]. Takes differences where they are few. A product needs
// less memory, but cancels digits.
absl::StatusOr<ValueId> SquaredDistances(NodeContext& ctx, ValueId x,
                                         ValueId vectors) {
  constexpr int64_t kMaxDifferences = int64_t{1} << 20;  // of one row
  const int64_t features = ctx.shape(x)[1];
  const int64_t count = ctx.shape(vectors)[0];
  if (count <= kMaxDifferences / features) {
    ASSIGN_OR_RETURN(const ValueId rows,
                     ctx.Reshape(x, {ctx.shape(x)[0], 1, features}));
    ASSIGN_OR_RETURN(const ValueId difference,
                     ctx.Binary(Binary::kSubtract, rows, vectors));
    ASSIGN_OR_RETURN(const ValueId square,
                     ctx.Binary(Binary::kMultiply, difference, difference));
    return ctx.Reduce(ReduceFunction::kSum, square, {2}, false);
  }
  const auto squares = [&](ValueId of, bool keep) -> absl::StatusOr<ValueId> {
    ASSIGN_OR_RETURN(const ValueId square,
                     ctx.Binary(Binary::kMultiply, of, of));
    return ctx.Reduce(ReduceFunction::kSum, square, {1}, keep);
  };
  ASSIGN_OR_RETURN(const ValueId product, TimesRows(ctx, x, vectors));
  ASSIGN_OR_RETURN(const ValueId twice,
                   ctx.Binary(Binary::kMultiply, product, -2.0));
  ASSIGN_OR_RETURN(const ValueId of_x, squares(x, true));
  ASSIGN_OR_RETURN(const ValueId of_vectors, squares(vectors, false));
  ASSIGN_OR_RETURN(const ValueId half, ctx.Binary(Binary::kAdd, twice, of_x));
  ASSIGN_OR_RETURN(const ValueId sum,
                   ctx.Binary(Binary::kAdd, half, of_vectors));
  return ctx.Binary(Binary::kMaximum, sum, 0.0);
}

// Returns the kernel of each row of x and each support vector.
absl::StatusOr<ValueId> KernelOf(NodeContext& ctx, ValueId x, ValueId vectors,
                                 const SvmKernel& kernel) {
  if (kernel.type == KernelType::kRadial) {
    ASSIGN_OR_RETURN(const ValueId distance, SquaredDistances(ctx, x, vectors));
    ASSIGN_OR_RETURN(const ValueId scaled,
                     ctx.Binary(Binary::kMultiply, distance, -kernel.gamma));
    return ctx.Unary(Unary::kExp, scaled);
  }
  ASSIGN_OR_RETURN(const ValueId product, TimesRows(ctx, x, vectors));
  if (kernel.type == KernelType::kLinear) return product;
  ASSIGN_OR_RETURN(const ValueId scaled,
                   ctx.Binary(Binary::kMultiply, product, kernel.gamma));
  ASSIGN_OR_RETURN(const ValueId y,
                   ctx.Binary(Binary::kAdd, scaled, kernel.coef0));
  if (kernel.type == KernelType::kSigmoid) return ctx.Emit(Op::kTanh, {y});
  return ctx.Binary(Binary::kPower, y, kernel.degree);
}

// Returns the support vectors [count, features].
absl::StatusOr<ValueId> ReadVectors(NodeContext& ctx, int64_t count,
                                    int64_t features) {
  ASSIGN_OR_RETURN(std::vector<double> numbers,
                   ctx.Floats("support_vectors", {}));
  if (count > kMaxListedNumbers ||
      static_cast<int64_t>(numbers.size()) != count * features) {
    return ctx.Refuse("'support_vectors' has ", numbers.size(), " numbers; ",
                      count, " vectors of ", features,
                      " features need one each");
  }
  return Listed(ctx, DType::kFloat32, {count, features}, std::move(numbers));
}

absl::Status LowerSvmRegressor(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, FeatureRows(ctx));
  ASSIGN_OR_RETURN(const SvmKernel kernel, ReadKernel(ctx));
  ASSIGN_OR_RETURN(const ScoreTransform transform, ReadTransform(ctx));
  ASSIGN_OR_RETURN(const int64_t count, ctx.Int("n_supports", 0));
  ASSIGN_OR_RETURN(std::vector<double> coefficients,
                   ctx.Floats("coefficients", {}));
  ASSIGN_OR_RETURN(const std::vector<double> rho, ctx.Floats("rho", {}));
  if (rho.empty()) return ctx.Refuse("needs 'rho'");
  const int64_t features = ctx.shape(x)[1];
  ValueId terms = x;
  if (count > 0) {
    ASSIGN_OR_RETURN(const ValueId vectors, ReadVectors(ctx, count, features));
    ASSIGN_OR_RETURN(terms, KernelOf(ctx, x, vectors, kernel));
  }
  const int64_t needed = count > 0 ? count : features;
  if (static_cast<int64_t>(coefficients.size()) != needed) {
    return ctx.Refuse("'coefficients' has ", coefficients.size(),
                      " numbers and needs ", needed);
  }
  ASSIGN_OR_RETURN(const ValueId w, Listed(ctx, DType::kFloat32, {1, needed},
                                           std::move(coefficients)));
  ASSIGN_OR_RETURN(const ValueId sum, TimesRows(ctx, terms, w));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Binary(Binary::kAdd, sum, rho[0]));
  ASSIGN_OR_RETURN(const int64_t one_class, ctx.Int("one_class", 0));
  if (one_class == 0) return Finish(ctx, Transformed(ctx, y, transform));
  ASSIGN_OR_RETURN(const ValueId inside, ctx.Binary(Binary::kGreater, y, 0.0));
  return Finish(ctx,
                ctx.Emit(Op::kWhere, {inside, ctx.Scalar(DType::kFloat32, 1),
                                      ctx.Scalar(DType::kFloat32, -1)}));
}

// The lists of a classifier with support vectors.
struct PairwiseSvm {
  ClassLabels labels;
  std::vector<int64_t> counts;  // support vectors of each class
  std::vector<double> coefficients, rho, prob_a, prob_b;
  int64_t classes = 0, vectors = 0, pairs = 0;
};

absl::Status CheckPairs(const NodeContext& ctx, const PairwiseSvm& svm) {
  const auto check = [&ctx](absl::string_view name, size_t size,
                            int64_t needed) {
    if (static_cast<int64_t>(size) == needed) return absl::OkStatus();
    return ctx.Refuse("'", name, "' has ", size, " numbers and needs ", needed);
  };
  RETURN_IF_ERROR(check("vectors_per_class", svm.counts.size(), svm.classes));
  RETURN_IF_ERROR(check("coefficients", svm.coefficients.size(),
                        (svm.classes - 1) * svm.vectors));
  RETURN_IF_ERROR(check("rho", svm.rho.size(), svm.pairs));
  if (svm.prob_a.empty() && svm.prob_b.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(check("prob_a", svm.prob_a.size(), svm.pairs));
  return check("prob_b", svm.prob_b.size(), svm.pairs);
}

absl::StatusOr<PairwiseSvm> ReadPairs(NodeContext& ctx) {
  constexpr int64_t kMaxClasses = 1000;
  PairwiseSvm svm;
  ASSIGN_OR_RETURN(svm.labels, ReadLabels(ctx, "classlabels_ints"));
  ASSIGN_OR_RETURN(svm.counts, ctx.Ints("vectors_per_class", {}));
  ASSIGN_OR_RETURN(svm.coefficients, ctx.Floats("coefficients", {}));
  ASSIGN_OR_RETURN(svm.rho, ctx.Floats("rho", {}));
  ASSIGN_OR_RETURN(svm.prob_a, ctx.Floats("prob_a", {}));
  ASSIGN_OR_RETURN(svm.prob_b, ctx.Floats("prob_b", {}));
  svm.classes = svm.labels.count();
  if (svm.classes > kMaxClasses) {
    return ctx.Refuse("has ", svm.classes, " classes; the limit is ",
                      kMaxClasses);
  }
  for (const int64_t count : svm.counts) {
    if (count < 0 || count > kMaxListedNumbers) {
      return ctx.Refuse("'vectors_per_class' has ", count,
                        ", which must be from 0 to ", kMaxListedNumbers);
    }
    svm.vectors += count;
  }
  svm.pairs = svm.classes * (svm.classes - 1) / 2;
  if (svm.vectors == 0) return svm;
  if (svm.classes < 2) return ctx.Refuse("needs at least 2 classes");
  RETURN_IF_ERROR(CheckPairs(ctx, svm));
  return svm;
}

// Calls `visit` with the number of each pair and its classes i < j.
template <typename Visit>
void ForPairs(int64_t classes, Visit visit) {
  int64_t pair = 0;
  for (int64_t i = 0; i < classes; ++i) {
    for (int64_t j = i + 1; j < classes; ++j) visit(pair++, i, j);
  }
}

// Returns the score [rows, pairs] of each pair of classes, from the kernels
// [rows, vectors].
absl::StatusOr<ValueId> PairScores(NodeContext& ctx, ValueId kernels,
                                   const PairwiseSvm& svm) {
  std::vector<int64_t> starts(svm.counts.size() + 1, 0);
  std::partial_sum(svm.counts.begin(), svm.counts.end(), starts.begin() + 1);
  if (svm.pairs > kMaxListedNumbers / svm.vectors) {
    return ctx.Refuse(svm.pairs, " pairs of classes and ", svm.vectors,
                      " vectors are over the limit of ", kMaxListedNumbers,
                      " numbers");
  }
  std::vector<double> weights(static_cast<size_t>(svm.pairs * svm.vectors), 0);
  const auto copy = [&](int64_t pair, int64_t row, int64_t of) {
    const auto place = static_cast<size_t>(of);
    for (int64_t m = starts[place]; m < starts[place + 1]; ++m) {
      weights[static_cast<size_t>(pair * svm.vectors + m)] =
          svm.coefficients[static_cast<size_t>(row * svm.vectors + m)];
    }
  };
  ForPairs(svm.classes, [&copy](int64_t pair, int64_t i, int64_t j) {
    copy(pair, j - 1, i);
    copy(pair, i, j);
  });
  ASSIGN_OR_RETURN(const ValueId w,
                   Listed(ctx, DType::kFloat32, {svm.pairs, svm.vectors},
                          std::move(weights)));
  ASSIGN_OR_RETURN(const ValueId sums, TimesRows(ctx, kernels, w));
  ASSIGN_OR_RETURN(const ValueId rho,
                   Listed(ctx, DType::kFloat32, {svm.pairs}, svm.rho));
  return ctx.Binary(Binary::kAdd, sums, rho);
}

// Returns a matrix [classes, pairs] with 1 where the class is the first or the
// second of the pair.
absl::StatusOr<ValueId> Membership(NodeContext& ctx, const PairwiseSvm& svm,
                                   bool second) {
  std::vector<double> cells(static_cast<size_t>(svm.classes * svm.pairs), 0);
  ForPairs(svm.classes, [&](int64_t pair, int64_t i, int64_t j) {
    cells[static_cast<size_t>((second ? j : i) * svm.pairs + pair)] = 1;
  });
  return Listed(ctx, DType::kFloat32, {svm.classes, svm.pairs},
                std::move(cells));
}

// Returns the place of the class that wins most pairs, the first of equals.
absl::StatusOr<ValueId> MostVotes(NodeContext& ctx, ValueId scores,
                                  const PairwiseSvm& svm) {
  ASSIGN_OR_RETURN(const ValueId above,
                   ctx.Binary(Binary::kGreater, scores, 0.0));
  ASSIGN_OR_RETURN(const ValueId first, ctx.Cast(above, DType::kFloat32));
  ASSIGN_OR_RETURN(const ValueId second, OneMinus(ctx, first));
  ASSIGN_OR_RETURN(const ValueId firsts, Membership(ctx, svm, false));
  ASSIGN_OR_RETURN(const ValueId seconds, Membership(ctx, svm, true));
  ASSIGN_OR_RETURN(const ValueId a, TimesRows(ctx, first, firsts));
  ASSIGN_OR_RETURN(const ValueId b, TimesRows(ctx, second, seconds));
  ASSIGN_OR_RETURN(const ValueId votes, Plus(ctx, a, b));
  return LargestPlace(ctx, votes);
}

// Returns for each pair the probability [rows, pairs] of its first class: the
// sigmoid of Platt (1999).
absl::StatusOr<ValueId> PairProbabilities(NodeContext& ctx, ValueId scores,
                                          const PairwiseSvm& svm) {
  constexpr double kLeast = 1e-7;
  ASSIGN_OR_RETURN(const ValueId a,
                   Listed(ctx, DType::kFloat32, {svm.pairs}, svm.prob_a));
  ASSIGN_OR_RETURN(const ValueId b,
                   Listed(ctx, DType::kFloat32, {svm.pairs}, svm.prob_b));
  ASSIGN_OR_RETURN(const ValueId scaled,
                   ctx.Binary(Binary::kMultiply, scores, a));
  ASSIGN_OR_RETURN(const ValueId z, ctx.Binary(Binary::kAdd, scaled, b));
  ASSIGN_OR_RETURN(const ValueId minus, ctx.Unary(Unary::kNegate, z));
  ASSIGN_OR_RETURN(const ValueId r, ctx.Emit(Op::kSigmoid, {minus}));
  return ctx.Unary(Unary::kClip, r, kLeast, 1 - kLeast);
}

absl::StatusOr<ValueId> ColumnAt(NodeContext& ctx, ValueId x, int64_t at) {
  return SliceAxis(ctx, x, {.axis = 1, .start = at});
}

// Returns the matrix Q of Wu, Lin and Weng (2004, Probability estimates for
// multi-class classification by pairwise coupling, equation 21) and a column of
// ones, by rows of columns [rows, 1].
using Columns = std::vector<std::vector<ValueId>>;
absl::StatusOr<Columns> CouplingMatrix(NodeContext& ctx, ValueId r,
                                       int64_t classes) {
  // Keeps the matrix of consistent pairs regular, which has no inverse.
  constexpr double kRidge = 1e-6;
  const auto count = static_cast<size_t>(classes);
  Columns q(count, std::vector<ValueId>(count + 1));
  ASSIGN_OR_RETURN(const Shape one, MakeShape(ctx, {ctx.shape(r)[0], 1}));
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(q[i][i], Filled(ctx, DType::kFloat32, one, kRidge));
    ASSIGN_OR_RETURN(q[i][count], Filled(ctx, DType::kFloat32, one, 1));
  }
  int64_t pair = 0;
  for (size_t i = 0; i < count; ++i) {
    for (size_t j = i + 1; j < count; ++j, ++pair) {
      ASSIGN_OR_RETURN(const ValueId win, ColumnAt(ctx, r, pair));
      ASSIGN_OR_RETURN(const ValueId minus, ctx.Unary(Unary::kNegate, win));
      ASSIGN_OR_RETURN(const ValueId loss,
                       ctx.Binary(Binary::kAdd, minus, 1.0));
      ASSIGN_OR_RETURN(q[i][j], ctx.Binary(Binary::kMultiply, minus, loss));
      q[j][i] = q[i][j];
      ASSIGN_OR_RETURN(const ValueId losses,
                       ctx.Binary(Binary::kMultiply, loss, loss));
      ASSIGN_OR_RETURN(const ValueId wins,
                       ctx.Binary(Binary::kMultiply, win, win));
      ASSIGN_OR_RETURN(q[i][i], ctx.Binary(Binary::kAdd, q[i][i], losses));
      ASSIGN_OR_RETURN(q[j][j], ctx.Binary(Binary::kAdd, q[j][j], wins));
    }
  }
  return q;
}

// Returns the probability of each class: p with Q p = 1, divided by its sum.
// Gaussian elimination (Gauss-Jordan) needs no pivots, since Q is positive
// definite.
absl::StatusOr<ValueId> CoupledProbabilities(NodeContext& ctx, ValueId r,
                                             int64_t classes) {
  ASSIGN_OR_RETURN(Columns q, CouplingMatrix(ctx, r, classes));
  const auto count = static_cast<size_t>(classes);
  for (size_t pivot = 0; pivot < count; ++pivot) {
    for (size_t row = 0; row < count; ++row) {
      if (row == pivot) continue;
      ASSIGN_OR_RETURN(
          const ValueId factor,
          ctx.Binary(Binary::kDivide, q[row][pivot], q[pivot][pivot]));
      for (size_t column = pivot + 1; column <= count; ++column) {
        ASSIGN_OR_RETURN(
            const ValueId part,
            ctx.Binary(Binary::kMultiply, factor, q[pivot][column]));
        ASSIGN_OR_RETURN(q[row][column],
                         ctx.Binary(Binary::kSubtract, q[row][column], part));
      }
    }
  }
  ValueIds parts;
  for (size_t i = 0; i < count; ++i) {
    ASSIGN_OR_RETURN(parts.emplace_back(),
                     ctx.Binary(Binary::kDivide, q[i][count], q[i][i]));
  }
  ASSIGN_OR_RETURN(const ValueId p, Concat(ctx, parts, 1));
  ASSIGN_OR_RETURN(const ValueId sum,
                   ctx.Reduce(ReduceFunction::kSum, p, {1}, true));
  return ctx.Binary(Binary::kDivide, p, sum);
}

absl::StatusOr<ValueId> ClassProbabilities(NodeContext& ctx, ValueId scores,
                                           const PairwiseSvm& svm) {
  constexpr int64_t kMaxCoupled = 20;
  ASSIGN_OR_RETURN(const ValueId r, PairProbabilities(ctx, scores, svm));
  if (svm.classes == 2) {
    ASSIGN_OR_RETURN(const ValueId rest, OneMinus(ctx, r));
    return TwoColumns(ctx, r, rest);
  }
  if (svm.classes > kMaxCoupled) {
    return ctx.Unsupported("probabilities of ", svm.classes,
                           " classes are not; those of up to ", kMaxCoupled,
                           " are");
  }
  return CoupledProbabilities(ctx, r, svm.classes);
}

// Lowers a classifier without support vectors: one row of coefficients per
// class.
absl::Status LowerLinearSvm(NodeContext& ctx, ValueId x,
                            const PairwiseSvm& svm) {
  const int64_t features = ctx.shape(x)[1];
  if (svm.classes > kMaxListedNumbers / features || svm.rho.empty() ||
      static_cast<int64_t>(svm.coefficients.size()) != svm.classes * features) {
    return ctx.Refuse("has ", svm.coefficients.size(), " coefficients and ",
                      svm.rho.size(), " numbers in 'rho'; ", svm.classes,
                      " classes of ", features,
                      " features need one each and at least 1");
  }
  ASSIGN_OR_RETURN(
      const ValueId w,
      Listed(ctx, DType::kFloat32, {svm.classes, features}, svm.coefficients));
  ASSIGN_OR_RETURN(const ValueId sums, TimesRows(ctx, x, w));
  ASSIGN_OR_RETURN(const ValueId scores,
                   ctx.Binary(Binary::kAdd, sums, svm.rho[0]));
  ASSIGN_OR_RETURN(const ValueId places, LargestPlace(ctx, scores));
  RETURN_IF_ERROR(SetLabels(ctx, places, svm.labels));
  ASSIGN_OR_RETURN(const ScoreTransform transform, ReadTransform(ctx));
  ASSIGN_OR_RETURN(const ValueId y, Transformed(ctx, scores, transform));
  ctx.Set(1, y);
  return absl::OkStatus();
}

absl::Status LowerSvmClassifier(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, FeatureRows(ctx));
  ASSIGN_OR_RETURN(const SvmKernel kernel, ReadKernel(ctx));
  ASSIGN_OR_RETURN(const PairwiseSvm svm, ReadPairs(ctx));
  if (svm.vectors == 0) return LowerLinearSvm(ctx, x, svm);
  ASSIGN_OR_RETURN(const ScoreTransform transform, ReadTransform(ctx));
  ASSIGN_OR_RETURN(const ValueId vectors,
                   ReadVectors(ctx, svm.vectors, ctx.shape(x)[1]));
  ASSIGN_OR_RETURN(const ValueId kernels, KernelOf(ctx, x, vectors, kernel));
  ASSIGN_OR_RETURN(const ValueId scores, PairScores(ctx, kernels, svm));
  ASSIGN_OR_RETURN(const ValueId places, MostVotes(ctx, scores, svm));
  RETURN_IF_ERROR(SetLabels(ctx, places, svm.labels));
  ValueId y = scores;
  if (!svm.prob_a.empty()) {
    ASSIGN_OR_RETURN(y, ClassProbabilities(ctx, scores, svm));
  } else if (svm.classes == 2) {
    ASSIGN_OR_RETURN(y, BothScores(ctx, scores, transform,
                                   transform == ScoreTransform::kNone));
    ctx.Set(1, y);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(y, Transformed(ctx, y, transform));
  ctx.Set(1, y);
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> SvmOperators() {
  static constexpr absl::string_view kFamily = "support vectors";
  static const OperatorEntry rows[] = {
      {kMl, "SVMClassifier", kFamily, kShapes, LowerSvmClassifier},
      {kMl, "SVMRegressor", kFamily, kShapes, LowerSvmRegressor},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
