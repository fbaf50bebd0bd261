// Compares the bits of an answer in batches of several sizes: who else asks
// must not change what a client gets.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <random>
#include <vector>

#include "engine/base/sha256.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/session_fixture.h"

namespace gpupool::engine {
namespace {

constexpr uint32_t kLargest = 11;
constexpr uint32_t kSeed = 5;

struct Weight {
  const char* name;
  std::array<int64_t, 5> dims;  // up to the first 0
};

struct Net {
  const char* name;
  const char* graph;
  std::array<Weight, 5> weights;  // up to the first without a name
  int64_t row;                    // elements of an input row
};

constexpr Net kNets[] = {
    {"products",
     R"((float[N, 300] x) => (float[N, 10] y) {
         a = Gemm(x, w1, b1)
         r = Tanh(a)
         m = MatMul(r, w2)
         y = Softmax <axis = -1> (m)
       })",
     {{{"w1", {{300, 768}}}, {"b1", {{768}}}, {"w2", {{768, 10}}}}},
     300},
    {"windows of 3x3 on four tiles of each image",
     R"((float[N, 64, 7, 7] x) => (float[N, 64, 7, 7] y) {
         a = Conv <pads = [1, 1, 1, 1]> (x, w1, b1)
         r = Relu(a)
         c = Conv <pads = [1, 1, 1, 1]> (r, w2)
         y = Add(c, x)
       })",
     {{{"w1", {{64, 64, 3, 3}}}, {"b1", {{64}}}, {"w2", {{64, 64, 3, 3}}}}},
     64 * 49},
    {"windows of 3x3 on one tile of each image",
     R"((float[N, 64, 4, 4] x) => (float[N, 96, 4, 4] y) {
         y = Conv <pads = [1, 1, 1, 1]> (x, w)
       })",
     {{{"w", {{96, 64, 3, 3}}}}},
     64 * 16},
    {"windows of 3x3 before a sigmoid",
     R"((float[N, 64, 14, 14] x) => (float[N, 64, 14, 14] y) {
         c = Conv <pads = [1, 1, 1, 1]> (x, w)
         s = Sigmoid(c)
         y = Mul(c, s)
       })",
     {{{"w", {{64, 64, 3, 3}}}}},
     64 * 196},
    {"windows of 3x3 over channels that do not fill vectors",
     R"((float[N, 70, 15, 15] x) => (float[N, 72, 15, 15] y) {
         c = Conv <pads = [1, 1, 1, 1]> (x, w, b)
         y = Relu(c)
       })",
     {{{"w", {{72, 70, 3, 3}}}, {"b", {{72}}}}},
     70 * 225},
    {"other windows",
     R"((float[N, 32, 9, 9] x) => (float[N, 6] y) {
         a = Conv <pads = [2, 2, 2, 2], strides = [2, 2]> (x, w1)
         b = Conv <group = 48, pads = [1, 1, 1, 1]> (a, w2)
         c = Conv (b, w3)
         d = Conv <group = 4> (c, w4)
         p = GlobalAveragePool(d)
         f = Flatten(p)
         y = MatMul(f, w5)
       })",
     {{{"w1", {{48, 32, 5, 5}}},
       {"w2", {{48, 1, 3, 3}}},
       {"w3", {{80, 48, 1, 1}}},
       {"w4", {{16, 20, 3, 3}}},
       {"w5", {{16, 6}}}}},
     32 * 81},
    {"transposed windows and volumes",
     R"((float[N, 8, 6, 6] x) => (float[N, 4, 12, 4, 3] y)
         <int64[5] shape = {0, 4, 12, 4, 3}> {
         a = ConvTranspose <strides = [2, 2]> (x, w1)
         v = Reshape(a, shape)
         y = Conv <pads = [1, 1, 1, 1, 1, 1]> (v, w2)
       })",
     {{{"w1", {{8, 4, 2, 2}}}, {"w2", {{4, 4, 3, 3, 3}}}}},
     8 * 36},
    {"attention",
     R"((float[N, 17, 48] x) => (float[N, 17, 48] y)
         <int64[4] split = {0, 17, 3, 16}, int64[3] flat = {0, 17, 48},
          float root = {4}> {
         l = LayerNormalization(x, g, b)
         q = MatMul(l, wq)
         k = MatMul(l, wk)
         qs = Reshape(q, split)
         ks = Reshape(k, split)
         qh = Transpose <perm = [0, 2, 1, 3]> (qs)
         kh = Transpose <perm = [0, 2, 3, 1]> (ks)
         vh = Transpose <perm = [0, 2, 1, 3]> (ks)
         scores = MatMul(qh, kh)
         scaled = Div(scores, root)
         weights = Softmax <axis = -1> (scaled)
         mixed = MatMul(weights, vh)
         back = Transpose <perm = [0, 2, 1, 3]> (mixed)
         joined = Reshape(back, flat)
         y = Add(joined, x)
       })",
     {{{"g", {{48}}}, {"b", {{48}}}, {"wq", {{48, 48}}}, {"wk", {{48, 48}}}}},
     17 * 48},
    {"products of two inputs",
     R"((float[N, 40, 24] x) => (float[N, 40, 40] y) {
         t = Transpose <perm = [0, 2, 1]> (x)
         s = MatMul(x, t)
         m = MatMul(s, s)
         y = Tanh(m)
       })",
     {},
     40 * 24},
    {"a recurrent layer",
     R"((float[N, 5, 20] x) => (float[N, 24] y) <int64[1] zero = {0}> {
         sequence = Transpose <perm = [1, 0, 2]> (x)
         all, last = GRU <hidden_size = 24> (sequence, w, r)
         y = Squeeze(last, zero)
       })",
     {{{"w", {{1, 72, 20}}}, {"r", {{1, 72, 24}}}}},
     5 * 20},
};

std::vector<float> Random(int64_t count, uint32_t seed) {
  std::mt19937 bits(seed);
  std::normal_distribution<float> normal;
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = normal(bits);
  return numbers;
}

onnx::ModelProto ModelOf(const Net& net) {
  onnx::ModelProto model = onnx_import::ModelOfGraph(net.graph);
  for (const Weight& weight : net.weights) {
    if (weight.name == nullptr) break;
    onnx::TensorProto* tensor = model.mutable_graph()->add_initializer();
    tensor->set_name(weight.name);
    tensor->set_data_type(onnx::TensorProto::FLOAT);
    int64_t count = 1;
    for (const int64_t dim : weight.dims) {
      if (dim == 0) break;
      tensor->add_dims(dim);
      count *= dim;
    }
    for (const float number : Random(count, kSeed)) {
      tensor->add_float_data(0.1f * number);
    }
  }
  return model;
}

class LoadedBitsTest : public SessionFixture,
                       public ::testing::WithParamInterface<int> {
 protected:
  std::unique_ptr<ServedModel> Load(const Net& net) {
    const std::string bytes = ModelOf(net).SerializeAsString();
    v1::ModelSpec spec;
    spec.mutable_onnx()->set_sha256(Sha256Hex(bytes));
    std::ofstream(blob_dir_ + "/" + spec.onnx().sha256(), std::ios::binary)
        << bytes;
    const auto imported =
        session_->ImportModel(spec, "", {.max_batch_size = kLargest});
    EXPECT_TRUE(imported.ok()) << imported.status();
    if (!imported.ok()) return nullptr;
    EXPECT_FALSE(imported->plan.computes_alone());
    auto model =
        session_->LoadModel({.version_id = 1,
                             .name = "bits/1",
                             .manifest_sha256 = imported->manifest_sha256,
                             .max_batch_size = kLargest,
                             .limit_bytes = imported->plan.inference().peak()});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }
};

TEST_P(LoadedBitsTest, AnAnswerHasTheSameBitsInEveryBatch) {
  session_ = Open("cpu:0", GetParam());
  ASSERT_NE(session_, nullptr);
  for (const Net& net : kNets) {
    SCOPED_TRACE(net.name);
    const auto model = Load(net);
    ASSERT_NE(model, nullptr);
    const std::vector<float> input = Random(kLargest * net.row, kSeed + 1);
    const std::vector<float> together = Answers(*model, input);
    const size_t width = together.size() / kLargest;
    for (const int64_t rows : {1, 2, 3, 4, 5, 8}) {
      for (const int64_t first : {int64_t{0}, kLargest - rows}) {
        SCOPED_TRACE(::testing::Message() << rows << " rows from " << first);
        const auto from = input.begin() + first * net.row;
        const std::vector<float> apart =
            Answers(*model, {from, from + rows * net.row});
        const float* expected =
            together.data() + static_cast<size_t>(first) * width;
        EXPECT_EQ(0, std::memcmp(apart.data(), expected,
                                 apart.size() * sizeof(float)));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, LoadedBitsTest, ::testing::Values(1, 2),
                         [](const auto& info) {
                           return "Of" + std::to_string(info.param);
                         });

}  // namespace
}  // namespace gpupool::engine
