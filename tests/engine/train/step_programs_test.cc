#include "engine/train/step_programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/train/programs.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Jobs whose activations take more than everything else, with evaluation.
class StepProgramsTest : public RunFixture {
 protected:
  static v1::JobSpec Deep() {
    v1::JobSpec spec;
    spec.mutable_model()->add_input_shape(16);
    for (int i = 0; i < 6; ++i) {
      const auto add = [&](const char* part) {
        v1::Layer* layer = spec.mutable_model()->add_layers();
        layer->set_name(absl::StrCat("block", i, ".", part));
        return layer;
      };
      add("dense")->mutable_dense()->set_units(24);
      add("gelu")->mutable_gelu();
      add("dropout")->mutable_dropout()->set_probability(0.25);
      add("tanh")->mutable_tanh();
    }
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(3);
    spec.mutable_data()->mutable_held_out()->set_every(5);
    spec.mutable_training()->mutable_cross_entropy();
    spec.mutable_training()->mutable_adam();
    spec.mutable_training()->set_batch_size(128);
    spec.mutable_training()->set_epochs(1);
    return spec;
  }

  absl::StatusOr<TrainingPrograms> Compile(const v1::JobSpec& spec) {
    auto source = ModelSource::Open(spec.model(), "");
    EXPECT_TRUE(source.ok()) << source.status();
    return CompileTraining(**source, spec,
                           {1000, {16}, {.whole = true, .maximum = 2}},
                           {&backend_});
  }

  // Returns the planned peak, or the least that an error names.
  struct Answer {
    bool kept = false;
    uint64_t bytes = 0;
  };
  Answer Ask(v1::JobSpec spec, uint64_t budget) {
    spec.mutable_training()->mutable_recompute()->set_budget_bytes(budget);
    const auto programs = Compile(spec);
    if (programs.ok()) return {true, BytesOf(*programs).peak};
    absl::string_view text = programs.status().message();
    const absl::string_view key = "the least that was found is ";
    const size_t at = text.find(key);
    EXPECT_NE(at, text.npos) << text;
    text.remove_prefix(at + key.size());
    Answer answer;
    EXPECT_TRUE(absl::SimpleAtoi(text.substr(0, text.find(' ')), &answer.bytes))
        << text;
    return answer;
  }

  std::vector<std::string> WarningsWithLayers(
      const std::vector<std::string>& layers) {
    v1::JobSpec spec = Deep();
    for (const std::string& layer : layers) {
      spec.mutable_training()->mutable_recompute()->add_layers(layer);
    }
    const auto programs = Compile(spec);
    EXPECT_TRUE(programs.ok()) << programs.status();
    return programs.ok() ? programs->warnings : std::vector<std::string>();
  }
};

TEST_F(StepProgramsTest, ABudgetIsKeptOrTheLeastIsNamed) {
  for (const uint32_t batches : {1u, 2u}) {
    SCOPED_TRACE(batches);
    v1::JobSpec spec = Deep();
    spec.mutable_training()->set_accumulate_batches(batches);
    const auto plain = Compile(spec);
    ASSERT_TRUE(plain.ok()) << plain.status();
    const uint64_t most = BytesOf(*plain).peak;
    const Answer refused = Ask(spec, 1);
    ASSERT_FALSE(refused.kept);
    EXPECT_LT(refused.bytes, most);
    EXPECT_TRUE(Ask(spec, refused.bytes).kept) << "the least is possible";
    EXPECT_FALSE(Ask(spec, refused.bytes - 1).kept);
    // From below the least to above what is needed without recomputation.
    const uint64_t stride = (most - refused.bytes) / 12;
    for (uint64_t budget = refused.bytes - 3 * stride;
         budget < most + 2 * stride; budget += stride) {
      const Answer answer = Ask(spec, budget);
      EXPECT_EQ(answer.kept, budget >= refused.bytes) << budget;
      if (answer.kept) {
        EXPECT_LE(answer.bytes, budget);
      } else {
        EXPECT_EQ(answer.bytes, refused.bytes);
      }
    }
  }
}

TEST_F(StepProgramsTest, ABudgetIsKeptByAShorterStepToo) {
  // An epoch of 800 rows ends with a step of 32 or of 399 rows, which needs
  // nearly as much as the others.
  for (const uint32_t batch : {128u, 401u}) {
    v1::JobSpec spec = Deep();
    spec.mutable_data()->set_drop_last(false);
    spec.mutable_training()->set_batch_size(batch);
    const auto plain = Compile(spec);
    ASSERT_TRUE(plain.ok()) << plain.status();
    ASSERT_TRUE(plain->short_step.has_value());
    const Answer refused = Ask(spec, 1);
    ASSERT_FALSE(refused.kept);
    EXPECT_LT(refused.bytes, BytesOf(*plain).peak);
    const Answer least = Ask(spec, refused.bytes);
    EXPECT_TRUE(least.kept);
    EXPECT_LE(least.bytes, refused.bytes);
    EXPECT_FALSE(Ask(spec, refused.bytes - 1).kept);
  }
}

TEST_F(StepProgramsTest, ABudgetThatIsNotNeededChangesNothing) {
  const auto plain = Compile(Deep());
  v1::JobSpec spec = Deep();
  spec.mutable_training()->mutable_recompute()->set_budget_bytes(
      BytesOf(*plain).peak);
  const auto programs = Compile(spec);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_EQ(StepFlopsOf(*programs), StepFlopsOf(*plain));
  EXPECT_THAT(programs->warnings, IsEmpty());
}

TEST_F(StepProgramsTest, SaysWhatRecomputationSavesAndCosts) {
  const auto plain = Compile(Deep());
  v1::JobSpec spec = Deep();
  const uint64_t budget = BytesOf(*plain).peak * 9 / 10;
  spec.mutable_training()->mutable_recompute()->set_budget_bytes(budget);
  const auto programs = Compile(spec);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_THAT(
      programs->warnings,
      ElementsAre(AllOf(
          StartsWith("note: recomputation takes "),
          HasSubstr(absl::StrCat("which is ", BytesOf(*programs).peak,
                                 " instead of ", BytesOf(*plain).peak)),
          HasSubstr(absl::StrCat("FLOPs (", StepFlopsOf(*programs),
                                 " instead of ", StepFlopsOf(*plain), ")")))));
}

TEST_F(StepProgramsTest, WarnsWhenNamedLayersSaveNothing) {
  EXPECT_THAT(WarningsWithLayers({"block1.*", "block3.*"}),
              ElementsAre(StartsWith("note: recomputation takes ")));
  EXPECT_THAT(WarningsWithLayers({"*"}),
              ElementsAre(StartsWith("recompute.layers saves nothing")));
  EXPECT_THAT(WarningsWithLayers({"conv*"}),
              ElementsAre(StartsWith("recompute.layers has no effect")));
}

}  // namespace
}  // namespace gpupool::engine
