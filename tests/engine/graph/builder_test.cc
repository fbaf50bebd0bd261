#include "engine/graph/builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

const TensorType kBuiltType{DType::kFloat32, {2}};

class BuilderTest : public ::testing::Test {
 protected:
  Graph graph_;
  GraphBuilder builder_{&graph_};
};

TEST_F(BuilderTest, TheSameNameAndTypeIsTheSameValue) {
  const ValueId a = *builder_.Input("step", {DType::kInt64, {}});
  EXPECT_EQ(*builder_.Input("step", {DType::kInt64, {}}), a);
  EXPECT_EQ(*GraphBuilder(&graph_).Input("step", {DType::kInt64, {}}), a);
}

TEST_F(BuilderTest, TheSameNameWithAnotherMeaningIsRefused) {
  ASSERT_TRUE(builder_.Input("x", kBuiltType).ok());
  EXPECT_THAT(builder_.Input("x", {DType::kFloat32, {3}}).status().message(),
              HasSubstr("'x'"));
  EXPECT_FALSE(builder_.Persistent("x", kBuiltType, MemoryClass::kWeight).ok());
}

TEST_F(BuilderTest, ARenamedValueLeavesItsNameToAnother) {
  const ValueId first = *builder_.Input("labels", kBuiltType);
  ASSERT_TRUE(builder_.Rename(first, "labels.1").ok());
  const ValueId second = *builder_.Input("labels", kBuiltType);
  EXPECT_NE(second, first);
  EXPECT_EQ(graph_.FindValue("labels.1")->id, first);
  EXPECT_EQ(graph_.FindValue("labels")->id, second);
  EXPECT_EQ(*builder_.Input("labels.1", kBuiltType), first);
  EXPECT_TRUE(builder_.Rename(second, "labels").ok()) << "its own name";
  EXPECT_THAT(std::string(builder_.Rename(second, "labels.1").message()),
              HasSubstr("the name 'labels.1' is taken"));
  EXPECT_EQ(graph_.FindValue("labels")->id, second);
}

TEST_F(BuilderTest, ErrorsBeginWithTheLayer) {
  const ValueId x = *builder_.Input("x", kBuiltType);
  builder_.SetSource("dense_3", 3);
  const auto result = builder_.Emit(Op::kMatMul, {x, x}, MatMulAttributes{});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()),
              StartsWith("layer 'dense_3': matmul"));
  EXPECT_TRUE(graph_.nodes().empty());
}

TEST_F(BuilderTest, NodesCarryTheirSourceAndValuesTheirClass) {
  const ValueId x = *builder_.Input("x", kBuiltType);
  builder_.SetSource("relu_1", 1);
  builder_.SetMemoryClass(MemoryClass::kGradient);
  const ValueId y = *builder_.EmitOne(Op::kRelu, {x});
  EXPECT_EQ(graph_.nodes()[0].source, "relu_1");
  EXPECT_EQ(graph_.nodes()[0].region, 1);
  EXPECT_EQ(graph_.value(y).memory_class, MemoryClass::kGradient);
}

TEST_F(BuilderTest, LoadNodesMakeDerivedValues) {
  const ValueId w = *builder_.Persistent("w", kBuiltType, MemoryClass::kWeight);
  builder_.SetStage(Stage::kLoad);
  const ValueId y = *builder_.EmitOne(Op::kRelu, {w});
  EXPECT_EQ(graph_.value(y).kind, ValueKind::kDerived);
  EXPECT_EQ(graph_.nodes()[0].stage, Stage::kLoad);
}

TEST_F(BuilderTest, OnlyAPersistentValueOfTheSameTypeIsUpdated) {
  const ValueId x = *builder_.Input("x", kBuiltType);
  const ValueId w = *builder_.Persistent("w", kBuiltType, MemoryClass::kWeight);
  const ValueId v =
      *builder_.Persistent("v", {DType::kFloat32, {3}}, MemoryClass::kWeight);
  const ValueId y = *builder_.EmitOne(Op::kAdd, {w, x});
  EXPECT_FALSE(builder_.Update(y, x).ok());
  EXPECT_FALSE(builder_.Update(y, v).ok());
  ASSERT_TRUE(builder_.Update(y, w).ok());
  EXPECT_EQ(graph_.value(y).alias.kind, AliasKind::kUpdate);
  EXPECT_EQ(graph_.value(y).memory_class, MemoryClass::kWeight);
}

TEST_F(BuilderTest, FreshNamesNeverMeetGivenOnes) {
  ASSERT_TRUE(builder_.Input("relu.0", kBuiltType).ok());
  const ValueId x = *builder_.Input("x", kBuiltType);
  const ValueId y = *builder_.EmitOne(Op::kRelu, {x});
  EXPECT_NE(graph_.value(y).name, "relu.0");
}

}  // namespace
}  // namespace gpupool::engine
