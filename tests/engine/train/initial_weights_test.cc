#include "engine/train/initial_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "engine/runtime/weight_view.h"
#include "engine/tensor/half.h"
#include "gpupool/v1/model.pb.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

class InitialWeightsTest : public RunFixture {
 protected:
  static std::shared_ptr<const ModelSource> Layers() {
    return *ModelSource::Open({}, "");
  }

  static PersistentSpec Uniform(const std::string& name, int64_t size,
                                double bound) {
    return {
        .name = name,
        .shape = {size},
        .initializer = {.kind = Initializer::Kind::kUniform, .bound = bound}};
  }

  absl::StatusOr<WeightStore> Store(const std::vector<PersistentSpec>& specs) {
    Graph graph;
    for (const PersistentSpec& spec : specs) {
      Value value;
      value.name = spec.name;
      value.dtype = spec.dtype;
      value.shape = spec.shape;
      value.kind = ValueKind::kPersistent;
      value.memory_class = spec.memory_class;
      graph.AddValue(value);
    }
    auto layout = WeightLayout::Create({&graph});
    if (!layout.ok()) return layout.status();
    return WeightStore::Create(*std::move(layout), "test", &allocator_);
  }

  static std::vector<float> Values(const WeightStore& store,
                                   const std::string& name) {
    const absl::Span<std::byte> bytes = WeightView::Read(store)->Find(name);
    const float* begin = reinterpret_cast<const float*>(bytes.data());
    return {begin, begin + bytes.size() / sizeof(float)};
  }
};

TEST_F(InitialWeightsTest, UniformValuesFillTheirRange) {
  const std::vector<PersistentSpec> specs = {Uniform("w", 4000, 0.25)};
  auto store = Store(specs);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(SetInitialWeights(*Layers(), specs, 5, *store).ok());
  const std::vector<float> values = Values(*store, "w");
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  EXPECT_GE(*low, -0.25f);
  EXPECT_LE(*high, 0.25f);
  EXPECT_LT(*low, -0.24f);
  EXPECT_GT(*high, 0.24f);
  double sum = 0;
  for (float value : values) sum += value;
  EXPECT_NEAR(sum / 4000, 0, 0.01);
}

TEST_F(InitialWeightsTest, NormalValuesHaveTheirDeviation) {
  const std::vector<PersistentSpec> specs = {
      {.name = "w",
       .shape = {10001},  // the last number has no partner
       .initializer = {.kind = Initializer::Kind::kNormal, .deviation = 0.5}}};
  auto store = Store(specs);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(SetInitialWeights(*Layers(), specs, 5, *store).ok());
  double sum = 0, squares = 0;
  int within = 0;
  for (const float value : Values(*store, "w")) {
    sum += value;
    squares += value * value;
    within += std::abs(value) < 0.5f;
  }
  // Five standard errors: 0.5 / 100 of the mean, 0.25 sqrt(2) / 100 of the
  // variance, and sqrt(0.683 0.317) / 100 of the share.
  EXPECT_NEAR(sum / 10001, 0, 0.025);
  EXPECT_NEAR(squares / 10001, 0.25, 0.018);
  EXPECT_NEAR(within / 10001.0, 0.683, 0.024);
  EXPECT_NE(Values(*store, "w").back(), 0);
}

TEST_F(InitialWeightsTest, ConstantsAreConstant) {
  const std::vector<PersistentSpec> specs = {
      {.name = "gamma", .shape = {3}, .initializer = {.value = 1}},
      {.name = "count", .dtype = DType::kInt64, .shape = {}}};
  auto store = Store(specs);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(SetInitialWeights(*Layers(), specs, 5, *store).ok());
  EXPECT_EQ(Values(*store, "gamma"), (std::vector<float>{1, 1, 1}));
}

TEST_F(InitialWeightsTest, NeitherOrderNorNeighboursMatter) {
  const std::vector<PersistentSpec> one = {Uniform("a", 8, 1),
                                           Uniform("b", 8, 1)};
  const std::vector<PersistentSpec> two = {
      Uniform("b", 8, 1), Uniform("c", 99, 1), Uniform("a", 8, 1)};
  auto first = Store(one);
  auto second = Store(two);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(SetInitialWeights(*Layers(), one, 5, *first).ok());
  ASSERT_TRUE(SetInitialWeights(*Layers(), two, 5, *second).ok());
  EXPECT_EQ(Values(*first, "a"), Values(*second, "a"));
  EXPECT_EQ(Values(*first, "b"), Values(*second, "b"));
  EXPECT_NE(Values(*first, "a"), Values(*first, "b"));
  ASSERT_TRUE(SetInitialWeights(*Layers(), one, 6, *first).ok());
  EXPECT_NE(Values(*first, "a"), Values(*second, "a"));
}

// Gives each value its number of bytes as its number.
class StoredSource : public ModelSource {
 public:
  absl::StatusOr<ModelGraph> Build(const BuildOptions&) const override {
    return absl::UnimplementedError("");
  }
  absl::Status ReadStored(absl::string_view name,
                          absl::Span<std::byte> to) const override {
    if (name != "stored") return absl::NotFoundError(name);
    for (std::byte& byte : to) byte = static_cast<std::byte>(to.size());
    return absl::OkStatus();
  }
  const ServedSizes& served() const override { return served_; }
  absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>&) const override {
    return absl::UnimplementedError("");
  }

 private:
  const ServedSizes served_;
};

TEST_F(InitialWeightsTest, StoredValuesOfAnyTypeComeFromTheSource) {
  const std::vector<PersistentSpec> specs = {
      {.name = "stored",
       .dtype = DType::kInt64,
       .shape = {2},
       .initializer = {.kind = Initializer::Kind::kStored}}};
  auto store = Store(specs);
  ASSERT_TRUE(store.ok()) << store.status();
  ASSERT_TRUE(SetInitialWeights(StoredSource(), specs, 5, *store).ok());
  EXPECT_EQ(WeightView::Read(*store)->Find("stored")[15], std::byte{16});
  EXPECT_EQ(SetInitialWeights(*Layers(), specs, 5, *store).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(InitialWeightsTest, AMissingValueIsAnError) {
  auto store = Store({Uniform("a", 8, 1)});
  ASSERT_TRUE(store.ok());
  EXPECT_EQ(
      SetInitialWeights(*Layers(), {Uniform("b", 8, 1)}, 5, *store).code(),
      absl::StatusCode::kInvalidArgument);
}

TEST_F(InitialWeightsTest, ANarrowedWeightHasTheRoundedNumbers) {
  const std::vector<PersistentSpec> specs = {Uniform("w", 100, 0.25)};
  std::vector<PersistentSpec> narrow = specs;
  narrow[0].dtype = DType::kBFloat16;
  auto wide = Store(specs);
  auto half = Store(narrow);
  ASSERT_TRUE(wide.ok() && half.ok());
  ASSERT_TRUE(SetInitialWeights(*Layers(), specs, 5, *wide).ok());
  ASSERT_TRUE(SetInitialWeights(*Layers(), specs, 5, *half).ok());
  const std::vector<float> numbers = Values(*wide, "w");
  const absl::Span<std::byte> bytes = WeightView::Read(*half)->Find("w");
  ASSERT_EQ(bytes.size(), 200u);
  for (size_t i = 0; i < numbers.size(); ++i) {
    uint16_t bits = 0;
    std::memcpy(&bits, &bytes[2 * i], 2);
    EXPECT_EQ(bits, BFloat16FromFloat(numbers[i]));
  }
}

}  // namespace
}  // namespace gpupool::engine
