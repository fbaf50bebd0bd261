#include "server/serving/model_registry.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/served_model.h"

namespace gpupool::server {
namespace {

TEST(ModelRegistryTest, TheNewestReadyVersionIsTheDefault) {
  WakeTimer timer;
  ModelRegistry registry;
  registry.Add(MakeServedVersion("digits", 2, 20, &timer));
  registry.Add(MakeServedVersion("digits", 1, 10, &timer));
  EXPECT_EQ(registry.FindNewest("digits")->facts().version, 2u);
  EXPECT_EQ(registry.Find("digits", 1)->facts().id, 10u);
  EXPECT_EQ(registry.Find("digits", 3), nullptr);
  EXPECT_EQ(registry.FindNewest("other"), nullptr);
}

// Returns a version of a model of texts with one text in each row.
v1::ModelVersion TextVersion() {
  v1::ModelVersion version = MakeModelVersion("words", 1, 10);
  v1::Plan& plan = *version.mutable_plan();
  plan.mutable_inputs(0)->set_data_type(v1::STRING);
  plan.mutable_outputs(0)->set_data_type(v1::STRING);
  v1::TextProgram::Node& node = *plan.mutable_text()->add_nodes();
  node.set_name("Identity 'keep'");
  node.set_op(v1::TextProgram::IDENTITY);
  node.add_inputs(0);
  plan.mutable_text()->add_outputs(1);
  return version;
}

TEST(VersionFactsTest, AModelOfTextsHasAProgramAndNeedsNoSlot) {
  v1::ModelVersion version = TextVersion();
  const auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_NE(facts->texts, nullptr);
  EXPECT_TRUE(CheckServable(version, 0).ok());
  version.mutable_plan()->mutable_text()->mutable_nodes(0)->set_inputs(0, 9);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeVersionFacts(version).status()));
  version = TextVersion();
  version.mutable_serving()->mutable_sequences()->set_direct(true);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeVersionFacts(version).status()));
  version = TextVersion();
  version.mutable_plan()->clear_text();
  EXPECT_TRUE(absl::IsInvalidArgument(MakeVersionFacts(version).status()))
      << "no device takes texts";
}

TEST(VersionFactsTest, LabelsBelongToAnOutputOfTheModel) {
  v1::ModelVersion version = MakeModelVersion("digits", 1, 10);
  EXPECT_EQ(MakeVersionFacts(version)->outputs[0].labels, nullptr);
  v1::OutputLabels* const labels = version.mutable_serving()->add_labels();
  labels->set_output("output");
  labels->add_labels("zero");
  labels->add_labels("one");
  const auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(*facts->outputs[0].labels,
            (std::vector<std::string>{"zero", "one"}));
  labels->set_output("scores");
  const absl::Status status = MakeVersionFacts(version).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_NE(status.message().find("'scores'"), std::string::npos) << status;
}

TEST(ModelRegistryTest, DrainedRunsWhenTheLastHandleIsGone) {
  WakeTimer timer;
  ModelRegistry registry;
  registry.Add(MakeServedVersion("digits", 1, 10, &timer));
  VersionHandle pinned = registry.FindNewest("digits");
  bool drained = false;
  registry.Drain(10, [&] { drained = true; });
  EXPECT_EQ(registry.FindNewest("digits"), nullptr);
  EXPECT_EQ(registry.FindById(10), nullptr);
  EXPECT_FALSE(drained);
  VersionHandle second = pinned;
  pinned.reset();
  EXPECT_FALSE(drained);
  second.reset();
  EXPECT_TRUE(drained);
}

TEST(ModelRegistryTest, DrainingWhatNobodyHoldsOrKnowsIsDoneAtOnce) {
  WakeTimer timer;
  ModelRegistry registry;
  registry.Add(MakeServedVersion("digits", 1, 10, &timer));
  int drained = 0;
  registry.Drain(10, [&] { ++drained; });
  registry.Drain(10, [&] { ++drained; });
  registry.Drain(99, [&] { ++drained; });
  EXPECT_EQ(drained, 3);
}

TEST(ModelRegistryTest, AnOlderVersionAnswersAfterTheNewestIsDrained) {
  WakeTimer timer;
  ModelRegistry registry;
  registry.Add(MakeServedVersion("digits", 1, 10, &timer));
  registry.Add(MakeServedVersion("digits", 2, 20, &timer));
  registry.Drain(20, [] {});
  EXPECT_EQ(registry.FindNewest("digits")->facts().version, 1u);
}

TEST(ModelRegistryTest, ASuspendedVersionIsNotFoundByNameButKept) {
  WakeTimer timer;
  ModelRegistry registry;
  registry.Add(MakeServedVersion("digits", 1, 10, &timer));
  registry.Suspend(10);
  EXPECT_EQ(registry.FindNewest("digits"), nullptr);
  EXPECT_EQ(registry.Find("digits", 1), nullptr);
  EXPECT_TRUE(registry.List("").empty());
  EXPECT_NE(registry.FindById(10), nullptr);
  EXPECT_EQ(registry.All().size(), 1u);
  registry.Resume(10);
  EXPECT_NE(registry.Find("digits", 1), nullptr);
}

TEST(ModelRegistryTest, ListsByNameThenVersion) {
  WakeTimer timer;
  ModelRegistry registry;
  registry.Add(MakeServedVersion("b", 1, 3, &timer));
  registry.Add(MakeServedVersion("a", 2, 2, &timer));
  registry.Add(MakeServedVersion("a", 1, 1, &timer));
  std::vector<uint64_t> ids;
  for (const auto& handle : registry.List("")) {
    ids.push_back(handle->facts().id);
  }
  EXPECT_THAT(ids, ::testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(registry.List("a").size(), 2u);
}

TEST(MakeVersionFactsTest, FillsInDefaultsAndKeepsTheLimit) {
  v1::ModelVersion version = MakeModelVersion("m", 4, 1);
  auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok());
  EXPECT_EQ(facts->label, "'m' version 4");
  EXPECT_EQ(facts->max_batch_size, 32u);
  EXPECT_EQ(facts->max_queue_size, 1024u);
  EXPECT_EQ(facts->max_queue_delay, absl::ZeroDuration());
  EXPECT_FALSE(facts->computes_alone);
  version.mutable_plan()->set_computes_alone(true);
  EXPECT_TRUE(MakeVersionFacts(version)->computes_alone);
  version.mutable_serving()->set_max_batch_size(5000);
  EXPECT_EQ(MakeVersionFacts(version)->max_batch_size, 1024u);
}

TEST(MakeVersionFactsTest, RefusesMoreDimensionsThanASlotDescribes) {
  v1::ModelVersion version = MakeModelVersion("m", 4, 1);
  v1::TensorSpec* spec = version.mutable_plan()->mutable_inputs(0);
  while (spec->shape_size() <= 8) spec->add_shape(1);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeVersionFacts(version).status()));
}

TEST(CheckServableTest, OneRowMustFitIntoASlot) {
  const v1::ModelVersion version = MakeModelVersion("m", 4, 1);
  EXPECT_TRUE(CheckServable(version, 1 << 20).ok());
  const absl::Status refused = CheckServable(version, 64);
  EXPECT_TRUE(absl::IsInvalidArgument(refused));
  EXPECT_THAT(std::string(refused.message()),
              ::testing::HasSubstr("--slot-bytes 128"));
}

TEST(CheckServableTest, RefusesWhatNoRequestCanCarry) {
  v1::ModelVersion version = MakeModelVersion("m", 4, 1);
  // An output without elements takes no room.
  version.mutable_plan()->mutable_outputs(0)->set_shape(1, 0);
  EXPECT_TRUE(CheckServable(version, 1 << 20).ok());
  version.mutable_plan()->clear_inputs();
  EXPECT_THAT(std::string(CheckServable(version, 1 << 20).message()),
              ::testing::HasSubstr("the model has 0 inputs"));
}

TEST(MakeVersionFactsTest, WithoutABatchThereIsOneRequestAtATime) {
  v1::ModelVersion version = MakeModelVersion("m", 4, 1);
  version.mutable_plan()->mutable_inputs(0)->set_shape(0, 3);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeVersionFacts(version).status()))
      << "the output has a batch";
  version.mutable_plan()->mutable_outputs(0)->set_shape(0, 3);
  auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_FALSE(facts->batched);
  EXPECT_EQ(facts->max_batch_size, 1u);
}

TEST(MakeVersionFactsTest, ADecoupledVersionNeedsTheRowsOfOneLoop) {
  v1::ModelVersion version = MakeModelVersion("m", 1, 1);
  version.mutable_serving()->set_decoupled(true);
  const auto refusal = [&] {
    return std::string(MakeVersionFacts(version).status().message());
  };
  EXPECT_THAT(refusal(), testing::HasSubstr("scan output of a Loop"));
  v1::Plan& plan = *version.mutable_plan();
  plan.mutable_outputs(0)->set_loop("walk");
  EXPECT_THAT(refusal(), testing::HasSubstr("no batch dimension"));
  plan.mutable_inputs(0)->set_shape(0, 3);
  plan.mutable_outputs(0)->set_shape(0, 3);
  const auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_TRUE(facts->decoupled);
  EXPECT_THAT(facts->stacked, testing::ElementsAre(0));
  *plan.add_outputs() = plan.outputs(0);
  plan.mutable_outputs(1)->set_loop("run");
  EXPECT_THAT(refusal(), testing::HasSubstr("'walk' and 'run'"));
}

TEST(MakeVersionFactsTest, TensorsAreAsManyAsASlotHolds) {
  v1::ModelVersion version = MakeModelVersion("m", 4, 1);
  for (int i = 0; i < 127; ++i) {
    *version.mutable_plan()->add_inputs() =
        FloatSpec("t" + std::to_string(i), 2);
  }
  auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->inputs.size(), 128u);
  *version.mutable_plan()->add_inputs() = FloatSpec("one too many", 2);
  EXPECT_TRUE(absl::IsInvalidArgument(MakeVersionFacts(version).status()));
  version.mutable_plan()->clear_inputs();
  EXPECT_TRUE(absl::IsInvalidArgument(MakeVersionFacts(version).status()));
}

}  // namespace
}  // namespace gpupool::server
