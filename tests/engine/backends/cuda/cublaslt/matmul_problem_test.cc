#include "engine/backends/cuda/cublaslt/matmul_problem.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "engine/graph/builder.h"

namespace gpupool::engine::cuda {
namespace {

// One node and the request for its kernel.
class Product {
 public:
  Product(Op op, const Attributes& attributes,
          const std::vector<TensorType>& inputs) {
    GraphBuilder builder(&graph_);
    std::vector<ValueId> ids;
    for (size_t i = 0; i < inputs.size(); ++i) {
      ids.push_back(*builder.Input(std::string(1, static_cast<char>('a' + i)),
                                   inputs[i]));
    }
    const auto outputs = builder.Emit(op, ids, attributes);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
  }
  std::optional<MatmulProblem> Describe(const KernelOptions& options = {}) {
    const Node& node = graph_.nodes()[0];
    return DescribeMatmul(
        {graph_, node, std::vector<bool>(node.inputs.size(), false), options});
  }
  const Graph& graph() const { return graph_; }

 private:
  Graph graph_;
};

TensorType F(Shape shape, DType type = DType::kFloat32) {
  return {type, shape};
}

float At(const std::vector<float>& data, const ProductMatrix& m, int64_t row,
         int64_t column, int64_t from) {
  if (m.transposed) std::swap(row, column);
  EXPECT_LT(row, m.rows);
  EXPECT_LT(column, m.columns);
  return data[static_cast<size_t>(from + row + column * m.leading)];
}

// Computes in plain loops what the library computes from a description.
std::vector<float> Compute(const MatmulProblem& p, const std::vector<float>& a,
                           const std::vector<float>& b, size_t size) {
  std::vector<float> y(size, NAN);
  const int64_t inner = p.first.transposed ? p.first.rows : p.first.columns;
  for (const ProductOffsets& at : p.calls) {
    for (int64_t batch = 0; batch < p.batch; ++batch) {
      for (int64_t column = 0; column < p.result.columns; ++column) {
        for (int64_t row = 0; row < p.result.rows; ++row) {
          double sum = 0;
          for (int64_t k = 0; k < inner; ++k) {
            sum += At(b, p.first, row, k, at.b + batch * p.first.batch_stride) *
                   At(a, p.second, k, column,
                      at.a + batch * p.second.batch_stride);
          }
          y[static_cast<size_t>(at.y + batch * p.result.batch_stride + row +
                                column * p.result.leading)] =
              static_cast<float>(p.scale * sum);
        }
      }
    }
  }
  return y;
}

int64_t Place(const Shape& shape, const std::vector<int64_t>& leading,
              int64_t row, int64_t column) {
  int64_t at = 0;
  const int skip = static_cast<int>(leading.size()) - (shape.rank() - 2);
  for (int axis = 0; axis < shape.rank() - 2; ++axis) {
    at = at * shape[axis] +
         (shape[axis] == 1 ? 0 : leading[static_cast<size_t>(axis + skip)]);
  }
  return (at * shape[shape.rank() - 2] + row) * shape[shape.rank() - 1] +
         column;
}

void ExpectRight(const Shape& a, const Shape& b,
                 const BatchMatMulAttributes& attributes) {
  SCOPED_TRACE(a.ToString() + " " + b.ToString());
  Product product(Op::kBatchMatMul, attributes, {F(a), F(b)});
  const auto problem = product.Describe();
  ASSERT_TRUE(problem.has_value());
  const Shape& y =
      product.graph().value(product.graph().nodes()[0].outputs[0]).shape;
  std::mt19937 random(1);
  std::uniform_int_distribution<int> numbers(-4, 4);
  std::vector<float> left(static_cast<size_t>(a.elements()));
  std::vector<float> right(static_cast<size_t>(b.elements()));
  for (float& x : left) x = static_cast<float>(numbers(random));
  for (float& x : right) x = static_cast<float>(numbers(random));
  const std::vector<float> got =
      Compute(*problem, left, right, static_cast<size_t>(y.elements()));
  const int64_t rows = y[y.rank() - 2], columns = y[y.rank() - 1];
  const int64_t inner = a[a.rank() - (attributes.transpose_a ? 2 : 1)];
  for (int64_t i = 0; i < y.elements(); ++i) {
    std::vector<int64_t> leading(static_cast<size_t>(y.rank() - 2));
    int64_t rest = i / (rows * columns);
    for (size_t axis = leading.size(); axis-- > 0;) {
      leading[axis] = rest % y[static_cast<int>(axis)];
      rest /= y[static_cast<int>(axis)];
    }
    const int64_t row = i / columns % rows, column = i % columns;
    double sum = 0;
    for (int64_t k = 0; k < inner; ++k) {
      const int64_t l = attributes.transpose_a ? Place(a, leading, k, row)
                                               : Place(a, leading, row, k);
      const int64_t r = attributes.transpose_b ? Place(b, leading, column, k)
                                               : Place(b, leading, k, column);
      sum += left[static_cast<size_t>(l)] * right[static_cast<size_t>(r)];
    }
    ASSERT_EQ(got[static_cast<size_t>(i)], attributes.scale * sum) << i;
  }
}

TEST(MatmulProblemTest, DescribesTheProductOfAnyBatchAndTransposition) {
  for (const bool a : {false, true}) {
    for (const bool b : {false, true}) {
      const BatchMatMulAttributes way{a, b, 0.5};
      const auto left = [&](std::vector<int64_t> dims) {
        dims.insert(dims.end(), {a ? 3 : 2, a ? 2 : 3});
        return *Shape::Create(dims);
      };
      const auto right = [&](std::vector<int64_t> dims) {
        dims.insert(dims.end(), {b ? 5 : 3, b ? 3 : 5});
        return *Shape::Create(dims);
      };
      ExpectRight(left({}), right({}), way);
      ExpectRight(left({4}), right({4}), way);
      ExpectRight(left({4}), right({}), way);
      ExpectRight(left({}), right({4}), way);
      ExpectRight(left({2, 4}), right({2, 4}), way);
      ExpectRight(left({2, 4}), right({2, 1}), way);
      ExpectRight(left({2, 1}), right({1, 4}), way);
      ExpectRight(left({3, 1, 4}), right({2, 1}), way);
    }
  }
}

TEST(MatmulProblemTest, OneRightOperandForABatchIsOneProduct) {
  Product product(Op::kBatchMatMul, BatchMatMulAttributes{},
                  {F({8, 16, 32}), F({32, 64})});
  const auto problem = product.Describe();
  ASSERT_TRUE(problem.has_value());
  EXPECT_EQ(problem->batch, 1);
  EXPECT_EQ(problem->result.columns, 8 * 16);
}

TEST(MatmulProblemTest, TooManyCallsAreRefused) {
  Product product(Op::kBatchMatMul, BatchMatMulAttributes{},
                  {F({100, 1, 2, 3}), F({1, 7, 3, 2})});
  EXPECT_FALSE(product.Describe().has_value());
}

TEST(MatmulProblemTest, RectifierAndTanhGeluAreTheLibrarysOthersComeBehind) {
  const auto epilogue = [](Activation activation) {
    MatMulAttributes matmul;
    matmul.epilogue.bias = true;
    matmul.epilogue.residual = true;
    matmul.epilogue.activation = activation;
    Product product(Op::kMatMul, matmul,
                    {F({4, 8}), F({8, 6}), F({6}), F({4, 6})});
    return *product.Describe();
  };
  for (const Activation taken :
       {Activation::kNone, Activation::kRelu, Activation::kGeluTanh}) {
    const MatmulProblem problem = epilogue(taken);
    EXPECT_EQ(problem.epilogue.activation, taken);
    EXPECT_EQ(problem.left_over, Activation::kNone);
    EXPECT_TRUE(problem.epilogue.bias && problem.epilogue.residual);
  }
  for (const Activation left :
       {Activation::kGelu, Activation::kSigmoid, Activation::kTanh}) {
    const MatmulProblem problem = epilogue(left);
    EXPECT_EQ(problem.epilogue.activation, Activation::kNone);
    EXPECT_EQ(problem.left_over, left);
    EXPECT_TRUE(problem.epilogue.bias && problem.epilogue.residual);
  }
}

TEST(MatmulProblemTest, OnlyTheThreeComputeTypesAreTaken) {
  for (const DType type :
       {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    Product product(Op::kBatchMatMul, BatchMatMulAttributes{},
                    {F({2, 3}, type), F({3, 2}, type)});
    EXPECT_TRUE(product.Describe().has_value()) << DTypeName(type);
  }
  for (const DType type : {DType::kFloat64, DType::kInt32, DType::kInt8}) {
    Product product(Op::kBatchMatMul, BatchMatMulAttributes{},
                    {F({2, 3}, type), F({3, 2}, type)});
    EXPECT_FALSE(product.Describe().has_value()) << DTypeName(type);
  }
}

TEST(MatmulProblemTest, TheTextTellsProblemsApart) {
  const auto text = [](Shape a, Shape b, bool transpose, bool tf32) {
    Product product(Op::kBatchMatMul,
                    BatchMatMulAttributes{false, transpose, 1}, {F(a), F(b)});
    return product.Describe({.tensor_float32 = tf32})->Text();
  };
  const std::string plain = text({4, 8}, {8, 8}, false, false);
  EXPECT_EQ(plain, text({4, 8}, {8, 8}, false, false));
  EXPECT_NE(plain, text({4, 8}, {8, 8}, true, false));
  EXPECT_NE(plain, text({4, 8}, {8, 8}, false, true));
  EXPECT_NE(plain, text({5, 8}, {8, 8}, false, false));
  EXPECT_NE(plain, text({3, 4, 8}, {3, 8, 8}, false, false));
}

// A kept algorithm that loads 16 bytes at a time is useless if the second
// call's rows begin at any element.
TEST(MatmulProblemTest, CallsBetweenAlignedAddressesAreAnotherProblem) {
  const auto describe = [](Shape a, Shape b) {
    return *Product(Op::kBatchMatMul, BatchMatMulAttributes{}, {F(a), F(b)})
                .Describe();
  };
  const MatmulProblem one = describe({1, 3, 5, 7}, {1, 3, 7, 7});
  const MatmulProblem two = describe({2, 3, 5, 7}, {1, 3, 7, 7});
  ASSERT_EQ(one.calls.size(), 1u);
  ASSERT_EQ(two.calls.size(), 2u);
  EXPECT_EQ(one.first, two.first);
  EXPECT_EQ(one.second, two.second);
  EXPECT_EQ(one.AlignmentOf(&ProductOffsets::a), 64u);
  EXPECT_EQ(two.AlignmentOf(&ProductOffsets::a), 4u);
  EXPECT_EQ(two.AlignmentOf(&ProductOffsets::b), 64u);
  EXPECT_NE(one.Text(), two.Text());
}

}  // namespace
}  // namespace gpupool::engine::cuda
