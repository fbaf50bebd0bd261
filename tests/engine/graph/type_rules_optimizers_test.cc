#include <gtest/gtest.h>

#include <set>
#include <utility>

#include "engine/graph/ops.h"

namespace gpupool::engine {
namespace {

const TensorType kParameter{DType::kFloat32, {3, 2}};

// Returns parameter, gradient, rate, step and `states` states, with or without
// clip.
TensorTypes StepInputs(size_t states, bool clip) {
  TensorTypes inputs = {
      kParameter, kParameter, {DType::kFloat64, {}}, {DType::kInt64, {}}};
  inputs.insert(inputs.end(), states, kParameter);
  if (clip) inputs.push_back({DType::kFloat32, {}});
  return inputs;
}

TEST(OptimizerRulesTest, EveryStateIsUpdated) {
  const auto plain =
      InferTypes(Op::kRmspropStep, RmspropAttributes{}, StepInputs(1, false));
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(*plain, TensorTypes(2, kParameter));
  const RmspropAttributes full{.momentum = 0.9, .centered = true, .clip = true};
  const auto all = InferTypes(Op::kRmspropStep, full, StepInputs(3, true));
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(*all, TensorTypes(4, kParameter));
  const auto two =
      InferTypes(Op::kAdamaxStep, AdamaxAttributes{}, StepInputs(2, false));
  ASSERT_TRUE(two.ok()) << two.status();
  EXPECT_EQ(*two, TensorTypes(3, kParameter));
  for (const auto& [op, attributes] :
       {std::pair<Op, Attributes>{Op::kAdagradStep, AdagradAttributes{}},
        std::pair<Op, Attributes>{Op::kLionStep, LionAttributes{}}}) {
    const auto types = InferTypes(op, attributes, StepInputs(1, false));
    ASSERT_TRUE(types.ok()) << types.status();
    EXPECT_EQ(*types, TensorTypes(2, kParameter));
  }
}

// Calls visit with the default of each optimizer.
template <size_t... kIndices, typename Visitor>
void ForEachOptimizer(std::index_sequence<kIndices...>, const Visitor& visit) {
  (visit(std::variant_alternative_t<kIndices, OptimizerAttributes>()), ...);
}

TEST(OptimizerRulesTest, TheTableHasAStepForEachWithRoomForItsStates) {
  std::set<Op> steps;
  ForEachOptimizer(
      std::make_index_sequence<std::variant_size_v<OptimizerAttributes>>(),
      [&](auto optimizer) {
        const Op op = StepOf(optimizer);
        SCOPED_TRACE(OpName(op));
        EXPECT_TRUE(steps.insert(op).second);
        EXPECT_EQ(OptimizerOf(optimizer), OptimizerAttributes(optimizer));
        const size_t states = optimizer.states().size();
        EXPECT_EQ(Info(op).inputs.least, static_cast<int>(4 + states));
        EXPECT_EQ(Info(op).outputs.least, static_cast<int>(1 + states));
        for (const bool clip : {false, true}) {
          optimizer.clip = clip;
          const auto types =
              InferTypes(op, optimizer, StepInputs(states, clip));
          ASSERT_TRUE(types.ok()) << types.status();
          EXPECT_EQ(*types, TensorTypes(1 + states, kParameter));
        }
      });
}

TEST(OptimizerRulesTest, RefusesMissingAndStrangeStates) {
  EXPECT_FALSE(InferTypes(Op::kRmspropStep, RmspropAttributes{.centered = true},
                          StepInputs(1, false))
                   .ok());
  EXPECT_FALSE(InferTypes(Op::kLionStep, LionAttributes{.clip = true},
                          StepInputs(1, false))
                   .ok());
  TensorTypes strange = StepInputs(1, false);
  strange[4].shape = {2, 3};
  EXPECT_FALSE(InferTypes(Op::kAdagradStep, AdagradAttributes{}, strange).ok());
}

TEST(OptimizerRulesTest, AveragesAreLikeTheirParameters) {
  const auto types =
      InferTypes(Op::kEmaUpdate, EmaAttributes{}, {kParameter, kParameter});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(*types, TensorTypes{kParameter});
  EXPECT_FALSE(InferTypes(Op::kEmaUpdate, EmaAttributes{},
                          {kParameter, {DType::kFloat32, {6}}})
                   .ok());
}

}  // namespace
}  // namespace gpupool::engine
