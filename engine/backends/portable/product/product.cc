#include "engine/backends/portable/arithmetic/floating.h"
#include "engine/backends/portable/product/epilogue_maker.h"
#include "engine/backends/portable/product/product_functors.h"
#include "engine/backends/portable/product/product_makers.h"

namespace gpupool::engine::portable {
namespace {

// Rows and columns of an operand's last two axes, and the distances in elements
// between neighbouring rows and columns. Transposing swaps them.
struct Matrix {
  int64_t rows, columns;
  int64_t row, column;
};
Matrix MatrixOf(const Shape& shape, bool transposed) {
  const int64_t rows = shape[shape.rank() - 2];
  const int64_t columns = shape[shape.rank() - 1];
  if (transposed) return {columns, rows, 1, columns};
  return {rows, columns, columns, 1};
}

// Returns the strides of an operand's leading axes, for each leading axis of a
// result of rank `rank`. An axis that repeats has stride 0.
std::vector<int64_t> LeadingStrides(const Shape& shape, int rank) {
  const auto strides = MemoryStrides(shape, Layout::kRowMajor);
  std::vector<int64_t> result(static_cast<size_t>(rank - 2), 0);
  for (int axis = 0; axis < shape.rank() - 2; ++axis) {
    if (shape[axis] == 1) continue;
    result[static_cast<size_t>(rank - shape.rank() + axis)] =
        strides[static_cast<size_t>(axis)];
  }
  return result;
}

ProductShape ShapeOf(const CompileRequest& request, bool transpose_a,
                     bool transpose_b) {
  const Shape& left = InputOf(request, 0).shape;
  const Shape& right = InputOf(request, 1).shape;
  const Shape& y = OutputOf(request, 0).shape;
  const Matrix a = MatrixOf(left, transpose_a);
  const Matrix b = MatrixOf(right, transpose_b);
  ProductShape shape;
  shape.rows = a.rows;
  shape.columns = b.columns;
  // The product's inner axis is the columns of a and the rows of b.
  shape.inner = a.columns;
  shape.a_row = a.row;
  shape.a_inner = a.column;
  shape.b_inner = b.row;
  shape.b_column = b.column;
  LoopNest batch;
  for (int axis = 0; axis < y.rank() - 2; ++axis)
    batch.sizes.push_back(y[axis]);
  batch.strides = {LeadingStrides(left, y.rank()),
                   LeadingStrides(right, y.rank())};
  shape.batch = WalkOf<2>(std::move(batch));
  return shape;
}

// A matrix product, its scale and its epilogue.
struct ProductPlan {
  ProductShape shape;
  int64_t count = 0;  // elements of the result
  double scale = 1;   // of the sums
  Epilogue epilogue;
};

template <typename T>
std::unique_ptr<Kernel> MakeProductOf(const ProductPlan& plan,
                                      LaunchStream stream) {
  return MakeKernel([plan, stream](const KernelArguments& at) {
    ProductFunctor<T> functor;
    functor.a = at.in<T>(0);
    functor.b = at.in<T>(1);
    functor.y = at.out<T>(0);
    functor.shape = plan.shape;
    functor.epilogue = BoundEpilogue<T>(plan.epilogue, at);
    functor.scale = plan.scale;
    LaunchFor(stream, plan.count, functor);
  });
}

std::unique_ptr<Kernel> MakeWholeProduct(const ProductShape& shape,
                                         int64_t count, DType type,
                                         LaunchStream stream) {
  return MakeKernel([=](const KernelArguments& at) {
    WholeProductFunctor functor;
    functor.a = at.in<void>(0);
    functor.b = at.in<void>(1);
    functor.y = at.out<void>(0);
    functor.type = type;
    functor.shape = shape;
    LaunchFor(stream, count, functor);
  });
}

KernelOr MakeMatrixProduct(const CompileRequest& request, LaunchStream stream) {
  const Value& y = OutputOf(request, 0);
  ProductPlan plan;
  plan.count = y.shape.elements();
  if (request.node.op == Op::kMatMul) {
    const auto& matmul = request.node.get<MatMulAttributes>();
    plan.shape = ShapeOf(request, matmul.transpose_a, matmul.transpose_b);
    plan.epilogue = matmul.epilogue;
  } else {
    const auto& matmul = request.node.get<BatchMatMulAttributes>();
    plan.shape = ShapeOf(request, matmul.transpose_a, matmul.transpose_b);
    plan.scale = matmul.scale;
  }
  // Epilogues and scales exist only for floating types.
  if (!IsFloatingType(y.dtype)) {
    return MakeWholeProduct(plan.shape, plan.count, y.dtype, stream);
  }
  return ForFloating(y.dtype, [&](auto tag) {
    return MakeProductOf<typename decltype(tag)::Type>(plan, stream);
  });
}

}  // namespace

KernelOr MakeProduct(const CompileRequest& request,
                     const PortableContext& context) {
  switch (request.node.op) {
    case Op::kAttention:
    case Op::kAttentionGrad:
      return MakeAttention(request, context);
    case Op::kConv2d:
    case Op::kConv2dInputGrad:
    case Op::kConv2dWeightGrad:
      return MakeConvolution(request, context);
    case Op::kBlockedMatMul:
      return MakeBlockedMatMul(request, context);
    default:
      return MakeMatrixProduct(request, context.stream);
  }
}

}  // namespace gpupool::engine::portable
