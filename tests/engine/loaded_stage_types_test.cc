// Loads models that run in stages and pass on values of every type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "absl/strings/str_replace.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/stages_fixture.h"

namespace gpupool::engine {
namespace {

using testing::ElementsAre;

class LoadedStageTypesTest : public StagesFixture {
 protected:
  // Loads the graph with this type in place of T. Null if that fails.
  std::unique_ptr<ServedModel> LoadWithType(const std::string& graph,
                                            const std::string& type) {
    auto model = Load(StagesFixture::Store(
        onnx_import::ModelOfGraph(
            absl::StrReplaceAll(graph, {{"T[", type + "["}}))
            .SerializeAsString()));
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }
};

TEST_F(LoadedStageTypesTest, LoopsCarryAndStackEveryType) {
  const std::vector<std::pair<std::string, std::string>> types = {
      {"float", "1"},   {"uint8", "2"},   {"int8", "3"},    {"uint16", "4"},
      {"int16", "5"},   {"int32", "6"},   {"int64", "7"},   {"float16", "10"},
      {"double", "11"}, {"uint32", "12"}, {"uint64", "13"}, {"bfloat16", "16"}};
  for (const auto& [type, number] : types) {
    SCOPED_TRACE(type);
    auto model = LoadWithType(
        "(float[3] x, int64 n) => (float[3] y, float[N, 3] all, "
        "float[M] some, int64[1, K] where, float[3] z) "
        "<float[3] zero = {0, 0, 0}> { c = Cast <to = " +
            number +
            "> (x) k = Greater(x, zero) "
            "t, r = Loop (n, , c) <body = b (int64 i, bool go, T[3] s) => "
            "(bool next, T[3] u, T[3] row) "
            "{ next = Identity(go) u = Add(s, c) row = Identity(s) }> "
            "m = Compress(t, k) y = Cast <to = 1> (t) all = Cast <to = 1> (r) "
            "some = Cast <to = 1> (m) where = NonZero(t) "
            "z = Cast <to = 1> (c) }",
        type);
    ASSERT_NE(model, nullptr);
    auto got =
        Ask(*model, {Sent::Of<float>({3, 0, 2}), Sent::Of<int64_t>({2})});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_THAT((*got)[0].As<float>(), ElementsAre(9, 0, 6));
    EXPECT_THAT((*got)[1].As<float>(), ElementsAre(3, 0, 2, 6, 0, 4));
    EXPECT_THAT((*got)[2].As<float>(), ElementsAre(9, 6));
    EXPECT_THAT((*got)[3].As<int64_t>(), ElementsAre(0, 2));
    EXPECT_THAT((*got)[4].As<float>(), ElementsAre(3, 0, 2));
  }
}

// Returns a model that gives its input as INT16, cast in one branch and in the
// other by the node.
std::string CastOr(const std::string& node) {
  return absl::StrCat(
      "(float[2] x, bool c) => (int16[2] y) <float s = {1}, uint16 z = {0}> "
      "{ y = If (c) <then_branch = f () => (int16[2] a) { a = ",
      node,
      " }, else_branch = e () => (int16[2] b) { b = Cast <to = 5> (x) }> }");
}

TEST_F(LoadedStageTypesTest, AnIntegerTypeOfAllBranchesIsServed) {
  auto model = LoadWithType(CastOr("Cast <to = 5> (x)"), "float");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->outputs()[0].data_type(), v1::INT16);
  // Programs give the type that holds it.
  auto got = Ask(*model, {Sent::Of<float>({3, -2}), Sent::Of<char>({1})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].As<int32_t>(), ElementsAre(3, -2));
}

TEST_F(LoadedStageTypesTest, AnIntegerTypeOfSomeBranchesIsNotServed) {
  auto model = LoadWithType(CastOr("QuantizeLinear(x, s, z)"), "float");
  ASSERT_NE(model, nullptr);
  EXPECT_EQ(model->outputs()[0].data_type(), v1::INT32);
  auto got = Ask(*model, {Sent::Of<float>({3, 2}), Sent::Of<char>({1})});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_THAT((*got)[0].As<int32_t>(), ElementsAre(3, 2));
}

TEST_F(LoadedStageTypesTest, HalfPrecisionHasTwoBytesAtPorts) {
  // 1 and -2, and twice their negatives.
  const std::vector<std::pair<std::vector<uint16_t>, std::vector<uint16_t>>>
      numbers = {{{0x3C00, 0xC000}, {0xC000, 0x4400}},
                 {{0x3F80, 0xC000}, {0xC000, 0x4080}}};
  const std::vector<std::string> types = {"float16", "bfloat16"};
  for (size_t i = 0; i < types.size(); ++i) {
    SCOPED_TRACE(types[i]);
    auto model = LoadWithType(
        "(T[2] x, bool c) => (T[2] y) { h = Add(x, x) y = If (c) <"
        "then_branch = f () => (T[2] a) { a = Neg(h) }, "
        "else_branch = e () => (T[2] b) { b = Abs(h) }> }",
        types[i]);
    ASSERT_NE(model, nullptr);
    auto got = Ask(*model, {Sent::Of(numbers[i].first), Sent::Of<char>({1})});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_EQ((*got)[0].As<uint16_t>(), numbers[i].second);
  }
}

}  // namespace
}  // namespace gpupool::engine
