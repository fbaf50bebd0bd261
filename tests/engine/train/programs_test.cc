#include "engine/train/programs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpupool/v1/job.pb.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using testing::HasSubstr;

class ProgramsTest : public RunFixture {
 protected:
  static std::shared_ptr<const ModelSource> Source(const v1::ModelSpec& model) {
    auto source = ModelSource::Open(model, "");
    EXPECT_TRUE(source.ok()) << source.status();
    return *source;
  }

  static v1::JobSpec Job() {
    v1::JobSpec spec;
    spec.mutable_model()->add_input_shape(4);
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(8);
    spec.mutable_model()->add_layers()->mutable_relu();
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(3);
    spec.mutable_training()->mutable_cross_entropy();
    spec.mutable_training()->mutable_adam();
    spec.mutable_training()->set_batch_size(16);
    spec.mutable_training()->set_epochs(1);
    return spec;
  }

  // A hundred rows of four numbers, in three classes.
  DataFacts Data() { return {100, {4}, {.whole = true, .maximum = 2}}; }
};

TEST_F(ProgramsTest, TrainAndEvalShareTheirWeights) {
  v1::JobSpec spec = Job();
  spec.mutable_data()->mutable_held_out()->set_last(5);
  auto programs =
      CompileTraining(*Source(spec.model()), spec, Data(), &backend_);
  ASSERT_TRUE(programs.ok()) << programs.status();
  ASSERT_TRUE(programs->eval.has_value());
  EXPECT_EQ(programs->eval_batch, 5) << "no larger than what is held out";
  EXPECT_EQ(programs->parameters, 4u * 8 + 8 + 8 * 3 + 3);
  // Four weights with two moments each.
  EXPECT_EQ(programs->layout.entries().size(), 12u);
  const PlannedBytes bytes = BytesOf(*programs);
  EXPECT_EQ(bytes.weights, programs->layout.bytes().model);
  EXPECT_EQ(bytes.optimizer, 2 * bytes.weights);
  EXPECT_GE(bytes.peak,
            bytes.weights + bytes.optimizer + ArenaBytesOf(*programs));
}

TEST_F(ProgramsTest, WithoutHeldOutRowsThereIsNoEvalProgram) {
  auto programs =
      CompileTraining(*Source(Job().model()), Job(), Data(), &backend_);
  ASSERT_TRUE(programs.ok()) << programs.status();
  EXPECT_FALSE(programs->eval.has_value());
}

TEST_F(ProgramsTest, StepsOfSeveralBatchesHaveAProgramMore) {
  v1::JobSpec spec = Job();
  auto one = CompileTraining(*Source(spec.model()), spec, Data(), &backend_);
  spec.mutable_training()->set_accumulate_batches(3);
  auto three = CompileTraining(*Source(spec.model()), spec, Data(), &backend_);
  ASSERT_TRUE(one.ok() && three.ok()) << three.status();
  EXPECT_FALSE(one->accumulate.has_value());
  ASSERT_TRUE(three->accumulate.has_value());
  EXPECT_GT(StepFlopsOf(*three), 2 * StepFlopsOf(*one));
  EXPECT_GT(BytesOf(*three).optimizer, BytesOf(*one).optimizer);
}

TEST_F(ProgramsTest, ErrorsNameTheLayer) {
  v1::JobSpec spec = Job();
  spec.mutable_model()->mutable_layers(2)->mutable_dense()->set_units(0);
  auto programs =
      CompileTraining(*Source(spec.model()), spec, Data(), &backend_);
  EXPECT_EQ(programs.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(programs.status().message(), HasSubstr("dense_2"));
}

}  // namespace
}  // namespace gpupool::engine
