#include "engine/backends/cuda/cublaslt/matmul_problem.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/backends/strides.h"
#include "engine/base/align.h"

namespace gpupool::engine::cuda {
namespace {

bool TakesType(DType type) {
  return type == DType::kFloat32 || type == DType::kFloat16 ||
         type == DType::kBFloat16;
}

// Returns the last two axes of a row-major value, read column by column.
ProductMatrix MatrixOf(const Shape& shape, bool transposed) {
  ProductMatrix matrix;
  matrix.rows = shape[shape.rank() - 1];
  matrix.columns = shape[shape.rank() - 2];
  matrix.leading = matrix.rows;
  matrix.transposed = transposed;
  return matrix;
}

// Returns the steps of an operand along the leading axes of a result of rank
// `rank`. An axis that repeats has step 0.
std::vector<int64_t> LeadingSteps(const Shape& shape, int rank) {
  const auto strides = MemoryStrides(shape, Layout::kRowMajor);
  std::vector<int64_t> steps(static_cast<size_t>(rank - 2), 0);
  for (int axis = 0; axis < shape.rank() - 2; ++axis) {
    if (shape[axis] == 1) continue;
    steps[static_cast<size_t>(rank - shape.rank() + axis)] =
        strides[static_cast<size_t>(axis)];
  }
  return steps;
}

LoopNest BatchLoops(const Shape& a, const Shape& b, const Shape& y) {
  LoopNest nest;
  for (int axis = 0; axis < y.rank() - 2; ++axis) nest.sizes.push_back(y[axis]);
  nest.strides = {LeadingSteps(a, y.rank()), LeadingSteps(b, y.rank()),
                  LeadingSteps(y, y.rank())};
  nest.Collapse();
  return nest;
}

// Makes each iteration of all loops except the innermost a call. Returns false
// when there are too many calls.
bool SplitBatch(const LoopNest& nest, MatmulProblem& problem) {
  problem.calls = {{}};
  if (nest.sizes.empty()) return true;
  const size_t inner = nest.sizes.size() - 1;
  for (size_t loop = 0; loop < inner; ++loop) {
    const int64_t size = nest.sizes[loop];
    // Divides instead of multiplying, which could overflow.
    if (size > static_cast<int64_t>(kMaxProductCalls / problem.calls.size())) {
      return false;
    }
    std::vector<ProductOffsets> calls;
    for (const ProductOffsets& at : problem.calls) {
      for (int64_t i = 0; i < size; ++i) {
        calls.push_back({at.a + i * nest.strides[0][loop],
                         at.b + i * nest.strides[1][loop],
                         at.y + i * nest.strides[2][loop]});
      }
    }
    problem.calls = std::move(calls);
  }
  const int64_t batch = nest.sizes[inner];
  if (batch > std::numeric_limits<int32_t>::max()) return false;
  problem.batch = static_cast<int32_t>(batch);
  problem.second.batch_stride = nest.strides[0][inner];
  problem.first.batch_stride = nest.strides[1][inner];
  problem.result.batch_stride = nest.strides[2][inner];
  return true;
}

// Turns a batch of plain left operands with one right operand into one product
// with more rows.
void FoldBatch(MatmulProblem& problem) {
  ProductMatrix& a = problem.second;
  ProductMatrix& y = problem.result;
  const bool folds = problem.batch > 1 && problem.first.batch_stride == 0 &&
                     !a.transposed && a.batch_stride == a.rows * a.columns &&
                     y.batch_stride == y.rows * y.columns;
  if (!folds) return;
  a.columns *= problem.batch;
  y.columns *= problem.batch;
  a.batch_stride = y.batch_stride = 0;
  problem.batch = 1;
}

// Chooses the library's part of the epilogue. It applies the bias and the
// activation after the addend, so the activation may follow both. Its GELU is
// the tanh form.
void ChooseEpilogue(const Epilogue& wanted, MatmulProblem& problem) {
  problem.epilogue.bias = wanted.bias;
  problem.epilogue.residual = wanted.residual;
  switch (wanted.activation) {
    case Activation::kNone:
    case Activation::kRelu:
    case Activation::kGeluTanh:
      problem.epilogue.activation = wanted.activation;
      break;
    default:
      problem.left_over = wanted.activation;
      problem.left_over_unary = wanted.unary;
  }
}

std::string TextOf(const ProductMatrix& m) {
  return absl::StrCat(m.rows, "x", m.columns, m.transposed ? "t" : "n", "/",
                      m.leading, "+", m.batch_stride);
}

}  // namespace

std::string MatmulProblem::Text() const {
  return absl::StrCat(
      "matmul ", DTypeName(type), tensor_float32 ? " tf32 " : " ",
      TextOf(first), " ", TextOf(second), " ", TextOf(result), " batch ", batch,
      epilogue.bias ? " bias" : "", epilogue.residual ? " residual" : "",
      " activation ", static_cast<int>(epilogue.activation), " aligned ",
      AlignmentOf(&ProductOffsets::a), "/", AlignmentOf(&ProductOffsets::b),
      "/", AlignmentOf(&ProductOffsets::y));
}

uint32_t MatmulProblem::AlignmentOf(int64_t ProductOffsets::*operand) const {
  uint64_t bits = kAlignmentBytes;
  for (const ProductOffsets& at : calls) {
    bits |= static_cast<uint64_t>(at.*operand) * SizeOf(type);
    // The lowest bit that is set in any offset.
  }
  return static_cast<uint32_t>(bits & (~bits + 1));
}

std::optional<MatmulProblem> DescribeMatmul(const CompileRequest& request) {
  const Graph& graph = request.graph;
  const Node& node = request.node;
  const Value& a = graph.value(node.inputs[0]);
  const Value& b = graph.value(node.inputs[1]);
  const Value& y = graph.value(node.outputs[0]);
  if (!TakesType(y.dtype)) return std::nullopt;
  for (const Value* value : {&a, &b, &y}) {
    if (value->shape.elements() == 0) return std::nullopt;
  }
  MatmulProblem problem;
  problem.type = y.dtype;
  problem.tensor_float32 =
      request.options.tensor_float32 && y.dtype == DType::kFloat32;
  bool transpose_a, transpose_b;
  if (node.op == Op::kMatMul) {
    const auto& matmul = node.get<MatMulAttributes>();
    transpose_a = matmul.transpose_a;
    transpose_b = matmul.transpose_b;
    ChooseEpilogue(matmul.epilogue, problem);
  } else {
    const auto& matmul = node.get<BatchMatMulAttributes>();
    transpose_a = matmul.transpose_a;
    transpose_b = matmul.transpose_b;
    problem.scale = matmul.scale;
  }
  problem.first = MatrixOf(b.shape, transpose_b);
  problem.second = MatrixOf(a.shape, transpose_a);
  problem.result = MatrixOf(y.shape, false);
  if (!SplitBatch(BatchLoops(a.shape, b.shape, y.shape), problem)) {
    return std::nullopt;
  }
  FoldBatch(problem);
  return problem;
}

}  // namespace gpupool::engine::cuda
