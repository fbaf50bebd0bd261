#include "server/serving/sequence_plan.h"

#include <ostream>
#include <string>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "server/serving/model_registry.h"
#include "tests/server/serving/sequence_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Control = v1::SequenceOptions::Control;

TEST(SequencePlanTest, ClientsSeeNeitherControlsNorStates) {
  v1::ModelVersion version = SequenceVersion("sum");
  AddControl(Control::START, "start", &version);
  const auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  ASSERT_EQ(facts->inputs.size(), 1u);
  EXPECT_EQ(facts->inputs[0].name, "x");
  ASSERT_EQ(facts->outputs.size(), 1u);
  EXPECT_EQ(facts->outputs[0].name, "y");
  EXPECT_EQ(facts->slot_inputs().size(), 3u);
  EXPECT_EQ(facts->slot_outputs().size(), 2u);
  EXPECT_TRUE(facts->takes_sequences);
  const SequencePlan& plan = *facts->sequences;
  EXPECT_EQ(plan.max_sequences, 4u);
  EXPECT_EQ(plan.max_idle, absl::Hours(1));
  EXPECT_EQ(plan.states[0].bytes, 8u);
  EXPECT_EQ(plan.states[0].initial, "");
  EXPECT_EQ(plan.controls[0].when_true, std::string("\0\0\x80\x3f", 4));
  EXPECT_EQ(plan.controls[0].when_false, std::string(4, '\0'));
}

TEST(SequencePlanTest, AnAnsweredStateIsAnOutput) {
  v1::ModelVersion version = SequenceVersion("sum");
  version.mutable_serving()
      ->mutable_sequences()
      ->mutable_states(0)
      ->set_answered(true);
  const auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_THAT(facts->sequences->answered, ElementsAre(0u, 1u));
  EXPECT_EQ(facts->outputs.size(), 2u);
}

TEST(SequencePlanTest, WithoutNumbersTheDefaultsCount) {
  v1::ModelVersion version = SequenceVersion("sum");
  version.mutable_serving()->set_max_batch_size(9);
  auto* options = version.mutable_serving()->mutable_sequences();
  options->clear_max_sequences();
  options->clear_max_idle_microseconds();
  const auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->sequences->max_sequences, 9u);
  EXPECT_EQ(facts->sequences->max_idle, absl::Seconds(1));
}

struct RefusedPlan {
  const char* options;
  const char* words;
};

void PrintTo(const RefusedPlan& refused, std::ostream* out) {
  *out << refused.options;
}

class RefusedPlanTest : public ::testing::TestWithParam<RefusedPlan> {};

TEST_P(RefusedPlanTest, NamesTheTensorAndWhatToDo) {
  v1::ModelVersion version = StepVersion("sum", {"x", "s", "u"}, {"y", "t"});
  *version.mutable_plan()->add_inputs() = FloatSpec("wide", 3);
  v1::TensorSpec whole = FloatSpec("whole", 2);
  whole.set_data_type(v1::INT32);
  *version.mutable_plan()->add_inputs() = whole;
  *version.mutable_plan()->add_inputs() = FloatSpec("flag", 1);
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      GetParam().options, version.mutable_serving()->mutable_sequences()));
  const absl::Status refused = MakeVersionFacts(version).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              AllOf(HasSubstr("sequences of model 'sum' version 1: "),
                    HasSubstr(GetParam().words)));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedPlanTest,
    ::testing::Values(
        RefusedPlan{"controls { input: \"none\" kind: START }",
                    "control input 'none' is not in the file"},
        RefusedPlan{"controls { input: \"flag\" kind: START } "
                    "controls { input: \"flag\" kind: END }",
                    "listed twice"},
        RefusedPlan{"controls { input: \"u\" kind: START }",
                    "has the shape [-1,2]"},
        RefusedPlan{"controls { input: \"flag\" kind: ID }",
                    "the number of a sequence is INT32"},
        RefusedPlan{"controls { input: \"flag\" kind: START data_type: BOOL }",
                    "is BOOL, the file has FP32"},
        RefusedPlan{"states { input: \"s\" output: \"none\" }",
                    "output 'none', which is not in the file"},
        RefusedPlan{"states { input: \"wide\" output: \"t\" }",
                    "has the shape [-1,3] as the input 'wide' and [-1,2]"},
        RefusedPlan{"states { input: \"whole\" output: \"t\" }",
                    "is INT32 as the input 'whole' and FP32"},
        RefusedPlan{"states { input: \"s\" output: \"t\" initial: \"abc\" }",
                    "begins with 3 bytes, but has 8"},
        RefusedPlan{"states { input: \"s\" output: \"t\" } "
                    "states { input: \"u\" output: \"y\" }",
                    "all outputs are states"}));

TEST(SequencePlanTest, TheStatesOfAllSequencesAreBounded) {
  v1::ModelVersion version = SequenceVersion("sum");
  for (auto* tensor : {version.mutable_plan()->mutable_inputs(1),
                       version.mutable_plan()->mutable_outputs(1)}) {
    tensor->set_shape(1, 1 << 26);
  }
  EXPECT_TRUE(MakeVersionFacts(version).ok());  // 4 times 256 MiB
  version.mutable_serving()->mutable_sequences()->set_max_sequences(5);
  EXPECT_THAT(
      std::string(MakeVersionFacts(version).status().message()),
      AllOf(HasSubstr("the states of 5 sequences"), HasSubstr("1073741824")));
}

TEST(SequenceNumberTest, FitsTheTypeOfTheInput) {
  SequencePlan plan;
  plan.label = "'sum' version 1";
  SequencePlan::Control control{
      .kind = Control::ID, .name = "id", .data_type = v1::INT32};
  EXPECT_EQ(*SequenceNumber(plan, control, {.number = 258}),
            std::string("\x02\x01\0\0", 4));
  EXPECT_TRUE(SequenceNumber(plan, control, {.number = 2147483647}).ok());
  const auto large = SequenceNumber(plan, control, {.number = 2147483648});
  EXPECT_THAT(std::string(large.status().message()),
              AllOf(HasSubstr("2147483648"), HasSubstr("'id'"),
                    HasSubstr("at most 2147483647")));
  control.data_type = v1::UINT64;
  EXPECT_TRUE(SequenceNumber(plan, control, {.number = INT64_MAX}).ok());
  EXPECT_FALSE(SequenceNumber(plan, control, {.number = UINT64_MAX}).ok());
  const auto text = SequenceNumber(plan, control, {.number = 0, .text = "a"});
  EXPECT_THAT(std::string(text.status().message()),
              AllOf(HasSubstr("'a'"), HasSubstr("send a number")));
}

}  // namespace
}  // namespace gpupool::server
