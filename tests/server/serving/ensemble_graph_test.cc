#include "server/serving/ensemble_graph.h"

#include <functional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/ensemble_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(EnsembleGraphTest, TensorsKnowWhoGivesAndWhoReadsThem) {
  const auto graph = MakeEnsembleGraph(DiamondSpec());
  ASSERT_TRUE(graph.ok()) << graph.status();
  ASSERT_EQ(graph->tensors.size(), 5u);
  EXPECT_EQ(graph->tensors[0].name, "x");
  EXPECT_EQ(graph->tensors[0].producer, EnsembleGraph::kNoStep);
  EXPECT_THAT(graph->tensors[0].readers, ElementsAre(0));
  EXPECT_EQ(graph->tensors[1].name, "m");
  EXPECT_EQ(graph->tensors[1].producer, 0);
  EXPECT_THAT(graph->tensors[1].readers, ElementsAre(1, 2));
  EXPECT_EQ(graph->steps[0].waits, 0);
  EXPECT_EQ(graph->steps[1].waits, 1);
  EXPECT_EQ(graph->steps[3].waits, 2);
  ASSERT_EQ(graph->outputs.size(), 1u);
  const EnsembleGraph::Tensor& y =
      graph->tensors[static_cast<size_t>(graph->outputs[0])];
  EXPECT_EQ(y.name, "y");
  EXPECT_TRUE(y.is_output);
  EXPECT_THAT(y.readers, IsEmpty());
}

TEST(EnsembleGraphTest, StepsMayBeInAnyOrder) {
  EnsembleSpec spec = DiamondSpec();
  std::swap(spec.steps[0], spec.steps[3]);
  EXPECT_TRUE(MakeEnsembleGraph(spec).ok());
}

TEST(EnsembleGraphTest, AnOutputThatNobodyReadsIsAllowed) {
  EnsembleSpec spec = ChainSpec();
  spec.steps[0].outputs["more"] = "unused";
  EXPECT_TRUE(MakeEnsembleGraph(spec).ok());
}

TEST(EnsembleGraphTest, AnOutputOfTheEnsembleMayBeReadByAStepToo) {
  EnsembleSpec spec = ChainSpec();
  spec.outputs.push_back(Floats("m"));
  EXPECT_TRUE(MakeEnsembleGraph(spec).ok());
}

struct Refused {
  const char* name;
  std::function<void(EnsembleSpec&)> change;  // of the chain
  const char* words;
};

void PrintTo(const Refused& refused, std::ostream* out) {
  *out << refused.name;
}

class RefusedGraphTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedGraphTest, NamesTheStepAndTheTensor) {
  EnsembleSpec spec = ChainSpec();
  GetParam().change(spec);
  const absl::Status refused = MakeEnsembleGraph(spec).status();
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr(GetParam().words));
}

INSTANTIATE_TEST_SUITE_P(
    All, RefusedGraphTest,
    ::testing::Values(
        Refused{"no steps", [](EnsembleSpec& s) { s.steps.clear(); },
                "it has 0 steps; write 1 .. 64"},
        Refused{"many steps",
                [](EnsembleSpec& s) { s.steps.resize(65, s.steps[0]); },
                "it has 65 steps"},
        Refused{"no inputs", [](EnsembleSpec& s) { s.inputs.clear(); },
                "it has 0 inputs and 1 outputs"},
        Refused{"no outputs", [](EnsembleSpec& s) { s.outputs.clear(); },
                "it has 1 inputs and 0 outputs"},
        Refused{"a step without inputs",
                [](EnsembleSpec& s) { s.steps[1].inputs.clear(); },
                "step 2 (model 'net') has no input_map"},
        Refused{"a step without outputs",
                [](EnsembleSpec& s) { s.steps[0].outputs.clear(); },
                "step 1 (model 'pre') has no output_map"},
        Refused{"given by two steps",
                [](EnsembleSpec& s) { s.steps[1].outputs["more"] = "m"; },
                "tensor 'm' is given twice: by step 1 (model 'pre') and by "
                "step 2 (model 'net')"},
        Refused{"given by a step and the client",
                [](EnsembleSpec& s) { s.steps[1].outputs["more"] = "x"; },
                "tensor 'x' is given twice: by an input of the ensemble"},
        Refused{"an input twice",
                [](EnsembleSpec& s) { s.inputs.push_back(Floats("x")); },
                "tensor 'x' is given twice"},
        Refused{"an output twice",
                [](EnsembleSpec& s) { s.outputs.push_back(Floats("y")); },
                "output 'y' is listed twice"},
        Refused{"never given",
                [](EnsembleSpec& s) { s.steps[1].inputs["more"] = "z"; },
                "step 2 (model 'net') reads tensor 'z'"},
        Refused{"an odd name",
                [](EnsembleSpec& s) { s.steps[1].inputs["more"] = "a\nb"; },
                "reads tensor 'a\\nb'"},
        Refused{"an input that is not read",
                [](EnsembleSpec& s) { s.inputs.push_back(Floats("w")); },
                "input 'w' of the ensemble is read by no step"},
        Refused{"an output that is not given",
                [](EnsembleSpec& s) { s.outputs.push_back(Floats("z")); },
                "output 'z' of the ensemble is given by no step"},
        Refused{"an output that is an input",
                [](EnsembleSpec& s) { s.outputs.push_back(Floats("x")); },
                "output 'x' of the ensemble is given by no step"},
        Refused{"a cycle",
                [](EnsembleSpec& s) { s.steps[0].inputs["more"] = "y"; },
                "step 1 (model 'pre') needs step 2 (model 'net') needs step 1"},
        Refused{"a step that needs itself",
                [](EnsembleSpec& s) { s.steps[1].inputs["more"] = "y"; },
                "step 2 (model 'net') needs step 2 (model 'net')"}));

// Returns a chain of so many steps.
EnsembleSpec LongChain(size_t length) {
  EnsembleSpec spec = ChainSpec();
  spec.steps.clear();
  for (size_t i = 0; i < length; ++i) {
    const std::string from = i == 0 ? "x" : absl::StrCat("t", i - 1);
    const std::string to = i + 1 == length ? "y" : absl::StrCat("t", i);
    spec.steps.push_back(StepOf("net", {{"in", from}}, {{"out", to}}));
  }
  return spec;
}

TEST(EnsembleGraphTest, TheLengthOfAChainIsBounded) {
  EXPECT_TRUE(MakeEnsembleGraph(LongChain(kMaxEnsembleDepth)).ok());
  const absl::Status refused =
      MakeEnsembleGraph(LongChain(kMaxEnsembleDepth + 1)).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("step 33 (model 'net') is number 33"));
}

TEST(EnsembleGraphTest, ACycleBesideOtherStepsIsNamedAlone) {
  EnsembleSpec spec = DiamondSpec();
  spec.steps[1].inputs["more"] = "y";
  const absl::Status refused = MakeEnsembleGraph(spec).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("step 2 (model 'left') needs step 4 (model 'join') "
                        "needs step 2 (model 'left');"));
}

}  // namespace
}  // namespace gpupool::server
