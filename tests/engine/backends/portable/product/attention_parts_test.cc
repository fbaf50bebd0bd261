#include "engine/backends/portable/product/attention_parts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/backends/portable/product/attention_parts_functors.h"
#include "engine/graph/builder.h"
#include "tests/engine/backends/portable/attention_cases.h"
#include "tests/engine/backends/portable/lane_group.h"

namespace gpupool::engine::portable {
namespace {

namespace testing = ::gpupool::engine::testing;
using ::testing::ElementsAre;
using ::testing::Pointwise;
using testing::RunByLanes;

constexpr float kInfinity = HUGE_VALF;

template <typename T>
std::byte* Bytes(std::vector<T>& numbers) {
  return reinterpret_cast<std::byte*>(numbers.data());
}

template <typename T>
std::vector<T> Of(const std::vector<float>& numbers) {
  std::vector<T> rounded;
  for (const float x : numbers) rounded.push_back(FromFloat<T>(x));
  return rounded;
}

template <typename T>
std::vector<float> Floats(const std::vector<T>& numbers) {
  std::vector<float> wide;
  for (const T& x : numbers) wide.push_back(ToFloat(x));
  return wide;
}

template <typename T>
class AttentionPartsTest : public ::testing::Test {
 protected:
  static constexpr DType kType =
      std::is_same_v<T, Float16> ? DType::kFloat16 : DType::kBFloat16;

  std::vector<float> Finite(const std::vector<float>& mask) {
    Value value;
    value.dtype = kType;
    value.shape = Shape{static_cast<int64_t>(mask.size())};
    const auto kernel = MakeFiniteMask(value, {});
    std::vector<T> x = Of<T>(mask), y(mask.size());
    EXPECT_TRUE(kernel->Bind({{Bytes(x)}, {Bytes(y)}}).ok());
    EXPECT_TRUE(kernel->Run().ok());
    return Floats(y);
  }
};

using Halves = ::testing::Types<BFloat16, Float16>;
TYPED_TEST_SUITE(AttentionPartsTest, Halves);

TYPED_TEST(AttentionPartsTest, MasksBecomeFiniteAndStayLow) {
  const std::vector<float> y = this->Finite({0, -2, -kInfinity, 0.5, NAN});
  EXPECT_EQ(y[0], 0);
  EXPECT_EQ(y[1], -2);
  EXPECT_TRUE(std::isfinite(y[2]));
  EXPECT_LE(y[2], -65504);
  EXPECT_EQ(y[3], 0.5);
  EXPECT_TRUE(std::isnan(y[4]));
}

// The second of two queries sees no key. With the causal rule neither does the
// first, because its only key is hidden.
TYPED_TEST(AttentionPartsTest, OnlyBlindRowsAreWritten) {
  for (const bool causal : {false, true}) {
    Graph graph;
    GraphBuilder builder(&graph);
    const ValueId x = *builder.Input("x", {this->kType, {1, 1, 2, 3}});
    const ValueId keys = *builder.Input("k", {this->kType, {1, 1, 2, 3}});
    const ValueId mask = *builder.Input("m", {this->kType, {2, 2}});
    ASSERT_TRUE(builder
                    .Emit(Op::kAttention, {x, keys, keys, mask},
                          AttentionAttributes{1, causal, true})
                    .ok());
    const auto kernel = MakeBlindRows(
        {graph, graph.nodes()[0], std::vector<bool>(4, false), {}}, {});
    auto hidden = Of<TypeParam>({-kInfinity, -1, -kInfinity, -kInfinity});
    auto y = Of<TypeParam>({1, 2, 3, 4, 5, 6});
    std::vector<float> lse = {7, 8};
    ASSERT_TRUE(kernel->Bind({{Bytes(hidden)}, {Bytes(y), Bytes(lse)}}).ok());
    ASSERT_TRUE(kernel->Run().ok());
    if (causal) {
      EXPECT_THAT(Floats(y), ElementsAre(0, 0, 0, 0, 0, 0));
      EXPECT_THAT(lse, ElementsAre(-kInfinity, -kInfinity));
    } else {
      EXPECT_THAT(Floats(y), ElementsAre(1, 2, 3, 0, 0, 0));
      EXPECT_THAT(lse, ElementsAre(7, -kInfinity));
    }
  }
}

TEST(AttentionLogarithmsTest, ExponentialsOfBlindRowsVanish) {
  std::vector<float> lse = {-3, -kInfinity, 200}, y(3);
  const auto kernel = MakeFiniteLogarithms(3, {});
  ASSERT_TRUE(kernel->Bind({{Bytes(lse)}, {Bytes(y)}}).ok());
  ASSERT_TRUE(kernel->Run().ok());
  EXPECT_THAT(y, ElementsAre(-3, kHiddenScore, 200));
  EXPECT_EQ(std::exp(-kHiddenScore - y[1]), 0);
  EXPECT_EQ(std::exp(1000 - y[1]), 0);
}

// A kernel that, like those of libraries, cannot handle -infinity in masks and
// logarithms. It is the portable kernel here. The steps around it must make it
// keep the op's contract.
class FiniteAttention : public Kernel {
 public:
  explicit FiniteAttention(const CompileRequest& request)
      : forward_(request.node.op == Op::kAttention),
        mask_at_(forward_ ? 3 : 6),
        inner_(*MakePortableKernel(request, {})),
        finite_mask_(MakeFiniteMask(InputOf(request, mask_at_), {})),
        mask_(InputOf(request, mask_at_).bytes()) {
    if (forward_) {
      blind_ = MakeBlindRows(request, {});
    } else {
      const int64_t rows = InputOf(request, 5).shape.elements();
      finite_lse_ = MakeFiniteLogarithms(rows, {});
      lse_.resize(static_cast<size_t>(rows) * sizeof(float));
    }
  }

  uint64_t workspace_bytes() const override {
    return inner_->workspace_bytes();
  }
  absl::Status Bind(const KernelBuffers& buffers) override {
    KernelBuffers inner = buffers;
    inner.inputs[mask_at_] = mask_.data();
    if (!forward_) inner.inputs[5] = lse_.data();
    EXPECT_TRUE(inner_->Bind(inner).ok());
    std::byte* const mask = buffers.inputs[mask_at_];
    EXPECT_TRUE(finite_mask_->Bind({{mask}, {mask_.data()}}).ok());
    if (forward_) return blind_->Bind({{mask}, buffers.outputs});
    return finite_lse_->Bind({{buffers.inputs[5]}, {lse_.data()}});
  }
  absl::Status Run() override {
    EXPECT_TRUE(finite_mask_->Run().ok());
    if (!forward_) {
      EXPECT_TRUE(finite_lse_->Run().ok());
    }
    EXPECT_TRUE(inner_->Run().ok());
    return forward_ ? blind_->Run() : absl::OkStatus();
  }

 private:
  const bool forward_;
  const size_t mask_at_;
  std::unique_ptr<Kernel> inner_, finite_mask_, finite_lse_, blind_;
  std::vector<std::byte> mask_, lse_;
};

class FiniteBackend : public DeviceBackend {
 public:
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override {
    return std::make_unique<FiniteAttention>(request);
  }
};

TEST(FiniteAttentionTest, PartsAroundItKeepThePromiseOfTheOp) {
  for (const DType type : {DType::kBFloat16, DType::kFloat16}) {
    for (const testing::AttentionCase& at : testing::AttentionCases(type)) {
      if (at.mask.empty()) continue;
      SCOPED_TRACE(at.Text());
      FiniteBackend backend;
      testing::ExpectAttentionAgrees(at, backend, 3e-2);
    }
  }
}

// The number of lanes does not divide the keys. The mask hides the last query's
// keys.
class AttentionLanesTest : public ::testing::Test {
 protected:
  static constexpr int64_t kQueries = 3, kKeys = 7, kWidth = 5;

  AttentionLanesTest() {
    in_.queries = kQueries;
    in_.keys = kKeys;
    in_.width = kWidth;
    in_.mask = mask_.data();
    in_.mask_strides[2] = kKeys;
    in_.mask_strides[3] = 1;
    for (size_t i = 0; i < mask_.size(); ++i) {
      const bool hidden = i >= 2 * kKeys || i % 3 == 1;
      mask_[i] = hidden ? -kInfinity : static_cast<float>(i) / 9;
    }
    for (size_t i = 0; i < scores_.size(); ++i) {
      scores_[i] = std::sin(static_cast<float>(i));
    }
  }

  std::vector<float> mask_ = std::vector<float>(kQueries * kKeys);
  std::vector<float> scores_ = std::vector<float>(kQueries * kKeys);
  AttentionOperands<float> in_;
};

TEST_F(AttentionLanesTest, SharesDoNotDependOnTheNumberOfLanes) {
  std::vector<float> wanted = scores_, wanted_lse(kQueries);
  AttentionSharesFunctor functor{in_, wanted.data(), wanted_lse.data(), 0};
  RunByLanes(1, kQueries, functor);
  float sum = 0;
  for (int64_t s = 0; s < kKeys; ++s) sum += wanted[static_cast<size_t>(s)];
  EXPECT_NEAR(sum, 1, 1e-6);
  EXPECT_EQ(wanted_lse[2], -kInfinity);
  for (int64_t s = 0; s < kKeys; ++s) {
    EXPECT_EQ(wanted[static_cast<size_t>(2 * kKeys + s)], 0);
  }
  for (const int lanes : {2, 4}) {
    std::vector<float> got = scores_, lse(kQueries);
    functor.scores = got.data();
    functor.lse = lse.data();
    RunByLanes(lanes, kQueries, functor);
    EXPECT_THAT(got, Pointwise(::testing::FloatNear(1e-6F), wanted));
    EXPECT_EQ(lse[2], -kInfinity);
    EXPECT_NEAR(lse[0], wanted_lse[0], 1e-6);
  }
}

TEST_F(AttentionLanesTest, NorDoSlopesOrBlindRows) {
  std::vector<float> y(kQueries * kWidth, 0.5), dy(kQueries * kWidth, 0.25);
  std::vector<float> lse = {1, 2, -kInfinity};
  std::vector<float> wanted_p = scores_, wanted_ds = scores_;
  AttentionSlopesFunctor functor{in_,        dy.data(),       y.data(),
                                 lse.data(), wanted_p.data(), wanted_ds.data(),
                                 0};
  RunByLanes(1, kQueries, functor);
  // Delta is 5 * 0.5 * 0.25.
  EXPECT_NEAR(wanted_p[0], std::exp(scores_[0] + mask_[0] - 1), 1e-6);
  EXPECT_NEAR(wanted_ds[0], wanted_p[0] * (scores_[0] - 0.625), 1e-6);
  EXPECT_EQ(wanted_p[2 * kKeys], 0);
  EXPECT_EQ(wanted_ds[2 * kKeys], 0);
  std::vector<float> p = scores_, ds = scores_;
  functor.p = p.data();
  functor.ds = ds.data();
  RunByLanes(4, kQueries, functor);
  EXPECT_THAT(p, Pointwise(::testing::FloatNear(1e-6F), wanted_p));
  EXPECT_THAT(ds, Pointwise(::testing::FloatNear(1e-6F), wanted_ds));

  std::vector<BFloat16> hidden = Of<BFloat16>(mask_);
  std::vector<BFloat16> values = Of<BFloat16>(y);
  BlindRowsFunctor<BFloat16> blind;
  blind.in.queries = kQueries;
  blind.in.keys = kKeys;
  blind.in.width = kWidth;
  blind.in.mask = hidden.data();
  blind.in.mask_strides[2] = kKeys;
  blind.in.mask_strides[3] = 1;
  blind.y = values.data();
  RunByLanes(4, kQueries, blind);
  EXPECT_EQ(ToFloat(values[2 * kWidth - 1]), 0.5);
  EXPECT_EQ(ToFloat(values[2 * kWidth]), 0);
}

}  // namespace
}  // namespace gpupool::engine::portable
