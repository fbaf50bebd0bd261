#include "server/serving/ensemble_binding.h"

#include <functional>
#include <ostream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/ensemble_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A chain and the versions of its steps, which tests change before they bind.
struct Chain {
  EnsembleSpec spec = ChainSpec();
  v1::ModelVersion pre = StepVersion("pre", {"in"}, {"out"});
  v1::ModelVersion net = StepVersion("net", {"in"}, {"out"});

  absl::StatusOr<EnsembleBinding> Bind() const {
    auto graph = MakeEnsembleGraph(spec);
    if (!graph.ok()) return graph.status();
    WakeTimer timer;
    const std::vector<VersionHandle> versions = {
        MakeServedVersion(pre, &timer), MakeServedVersion(net, &timer)};
    return BindEnsemble(
        spec, std::make_shared<const EnsembleGraph>(*std::move(graph)),
        versions);
  }
};

TEST(EnsembleBindingTest, TheEnsembleTakesAndGivesWhatItsStepsDo) {
  Chain chain;
  chain.pre.mutable_plan()->mutable_inputs(0)->set_data_type(v1::INT64);
  chain.spec.inputs[0].data_type = v1::INT64;
  const auto binding = chain.Bind();
  ASSERT_TRUE(binding.ok()) << binding.status();
  const VersionFacts& facts = binding->facts;
  EXPECT_EQ(facts.label, "'chain' version 1");
  EXPECT_TRUE(facts.batched);
  EXPECT_EQ(facts.max_batch_size, 4u);
  EXPECT_EQ(facts.max_queue_size, 8u);
  ASSERT_EQ(facts.inputs.size(), 1u);
  EXPECT_EQ(facts.inputs[0].name, "x");
  EXPECT_EQ(facts.inputs[0].data_type, v1::INT64);
  EXPECT_THAT(facts.inputs[0].DeclaredShape(), ElementsAre(-1, 2));
  EXPECT_EQ(facts.outputs[0].name, "y");
  ASSERT_EQ(binding->steps.size(), 2u);
  EXPECT_EQ(binding->steps[1].text, "step 2 (model 'net' version 1)");
  EXPECT_THAT(binding->steps[1].inputs, ElementsAre(1));
}

TEST(EnsembleBindingTest, ABindingKeepsNoVersion) {
  const auto binding = Chain().Bind();
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_TRUE(binding->steps[0].version.expired());
}

TEST(EnsembleBindingTest, WithoutABatchSizeDimsAreWholeShapes) {
  Chain chain;
  chain.spec.max_batch_size = 0;
  chain.spec.inputs[0].dims = {-1, 2};
  chain.spec.outputs[0].dims = {-1, -1};
  chain.net.mutable_serving()->set_max_batch_size(3);
  const auto binding = chain.Bind();
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_EQ(binding->facts.max_batch_size, 3u) << "the least of the steps";
}

TEST(EnsembleBindingTest, OutputsOfAStepMayBeLeftOut) {
  Chain chain;
  *chain.pre.mutable_plan()->add_outputs() = FloatSpec("more", 7);
  const auto binding = chain.Bind();
  ASSERT_TRUE(binding.ok()) << binding.status();
  EXPECT_THAT(binding->steps[0].outputs, ElementsAre(1, -1));
}

TEST(EnsembleBindingTest, OtherFormatsAreNotTheSame) {
  const auto first = Chain().Bind();
  ASSERT_TRUE(first.ok());
  EXPECT_TRUE(TakeTheSame(first->facts, Chain().Bind()->facts));
  Chain wider;
  wider.pre.mutable_plan()->mutable_inputs(0)->set_shape(1, 3);
  wider.spec.inputs[0].dims = {3};
  EXPECT_FALSE(TakeTheSame(first->facts, wider.Bind()->facts));
  Chain fewer;
  fewer.spec.max_batch_size = 2;
  EXPECT_FALSE(TakeTheSame(first->facts, fewer.Bind()->facts));
}

TEST(EnsembleBindingTest, OutputsHaveTheLabelsOfTheirSteps) {
  Chain chain;
  v1::OutputLabels* const labels = chain.net.mutable_serving()->add_labels();
  labels->set_output(chain.net.plan().outputs(0).name());
  labels->add_labels("cat");
  const auto binding = chain.Bind();
  ASSERT_TRUE(binding.ok()) << binding.status();
  ASSERT_NE(binding->facts.outputs[0].labels, nullptr);
  EXPECT_THAT(*binding->facts.outputs[0].labels, ElementsAre("cat"));
  EXPECT_TRUE(TakeTheSame(binding->facts, chain.Bind()->facts));
  EXPECT_FALSE(TakeTheSame(binding->facts, Chain().Bind()->facts));
  labels->set_labels(0, "dog");
  EXPECT_FALSE(TakeTheSame(binding->facts, chain.Bind()->facts));
}

struct RefusedSteps {
  const char* name;
  std::function<void(Chain&)> change;
  const char* words;
};

void PrintTo(const RefusedSteps& refused, std::ostream* out) {
  *out << refused.name;
}

void SetWhole(v1::ModelVersion& version) {
  version.mutable_plan()->mutable_inputs(0)->set_shape(0, 1);
  version.mutable_plan()->mutable_outputs(0)->set_shape(0, 1);
}

class RefusedBindingTest : public ::testing::TestWithParam<RefusedSteps> {};

TEST_P(RefusedBindingTest, NamesTheStepAndTheTensor) {
  Chain chain;
  GetParam().change(chain);
  const absl::Status refused = chain.Bind().status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedBindingTest,
    ::testing::Values(
        RefusedSteps{"no such input",
                     [](Chain& c) { c.spec.steps[1].inputs["other"] = "x"; },
                     "step 2 (model 'net' version 1) has no input 'other'"},
        RefusedSteps{"no such output",
                     [](Chain& c) { c.spec.steps[0].outputs["other"] = "o"; },
                     "step 1 (model 'pre' version 1) has no output 'other'"},
        RefusedSteps{"a model of texts",
                     [](Chain& c) {
                       c.pre.mutable_plan()->mutable_text()->add_outputs(0);
                     },
                     "step 1 (model 'pre' version 1) is a model of texts"},
        RefusedSteps{"an input left out",
                     [](Chain& c) {
                       *c.net.mutable_plan()->add_inputs() =
                           FloatSpec("mask", 2);
                     },
                     "step 2 (model 'net' version 1) needs input 'mask'"},
        RefusedSteps{
            "another type",
            [](Chain& c) {
              c.net.mutable_plan()->mutable_inputs(0)->set_data_type(v1::INT32);
            },
            "tensor 'm' is FP32 of shape [-1,2] from step 1 (model 'pre' "
            "version 1), but INT32 of shape [-1,2] for step 2"},
        RefusedSteps{"another shape",
                     [](Chain& c) {
                       c.net.mutable_plan()->mutable_inputs(0)->set_shape(1, 5);
                     },
                     "but FP32 of shape [-1,5] for step 2"},
        RefusedSteps{
            "an input declared with another size",
            [](Chain& c) { c.spec.inputs[0].dims = {4}; },
            "input 'x' is declared as FP32 of shape [-1,4], but is FP32 of "
            "shape [-1,2] in step 1"},
        RefusedSteps{"an output declared with another type",
                     [](Chain& c) { c.spec.outputs[0].data_type = v1::INT64; },
                     "output 'y' is declared as INT64"},
        RefusedSteps{
            "more rows than a step takes",
            [](Chain& c) { c.net.mutable_serving()->set_max_batch_size(2); },
            "max_batch_size is 4, but step 2 (model 'net' version 1) "
            "takes at most 2 rows"},
        RefusedSteps{
            "one without a batch dimension", [](Chain& c) { SetWhole(c.net); },
            "step 2 (model 'net' version 1) has no batch dimension, but "
            "step 1"},
        RefusedSteps{
            "none with a batch dimension",
            [](Chain& c) {
              SetWhole(c.pre);
              SetWhole(c.net);
            },
            "max_batch_size is 4, but step 1 (model 'pre' version 1) has "
            "no batch dimension"}));

TEST(EnsembleBindingTest, AnEnsembleIsNoStep) {
  FakeSteps steps;
  const EnsembleSpec spec = ChainSpec();
  const auto inner = std::make_shared<ServedVersion>(
      steps.version("pre")->facts(), std::make_shared<FakeStep>(1),
      std::make_shared<const EnsembleSpec>(spec));
  const auto graph =
      std::make_shared<const EnsembleGraph>(*MakeEnsembleGraph(spec));
  const std::vector<VersionHandle> versions = {inner, steps.version("net")};
  EXPECT_THAT(
      std::string(BindEnsemble(spec, graph, versions).status().message()),
      HasSubstr("step 1 (model 'pre' version 1) is an ensemble itself"));
}

}  // namespace
}  // namespace gpupool::server
