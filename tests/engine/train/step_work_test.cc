#include "engine/train/step_work.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "gpupool/v1/job.pb.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

class StepWorkTest : public RunFixture {
 protected:
  // Returns a net of 4 inputs, `hidden` numbers and 3 classes.
  static v1::JobSpec Job(uint32_t hidden) {
    v1::JobSpec spec;
    spec.mutable_model()->add_input_shape(4);
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(hidden);
    spec.mutable_model()->add_layers()->mutable_relu();
    spec.mutable_model()->add_layers()->mutable_dense()->set_units(3);
    spec.mutable_training()->mutable_cross_entropy();
    spec.mutable_training()->mutable_adam();
    spec.mutable_training()->set_batch_size(16);
    spec.mutable_training()->set_epochs(1);
    return spec;
  }

  TrainingPrograms Compile(const v1::JobSpec& spec) {
    const auto source = ModelSource::Open(spec.model(), "");
    EXPECT_TRUE(source.ok()) << source.status();
    auto programs = CompileTraining(
        **source, spec, {100, {4}, {.whole = true, .maximum = 2}}, {&backend_});
    EXPECT_TRUE(programs.ok()) << programs.status();
    return *std::move(programs);
  }
};

TEST_F(StepWorkTest, CountsAllKernelsAndFlopsOfAStep) {
  const TrainingPrograms programs = Compile(Job(8));
  const v1::StepWork work = StepWorkOf(programs);
  EXPECT_EQ(work.kernels(),
            programs.train.launches().size() - programs.train.load_launches());
  EXPECT_EQ(work.product_flops() + work.other_flops(), StepFlopsOf(programs));
  // Forward and for the weights 2 * 16 * (4 * 8 + 8 * 3) each, and for the
  // inputs of the second layer 2 * 16 * 8 * 3.
  EXPECT_GE(work.product_flops(), 4352u);
  EXPECT_GT(work.other_flops(), 0u);
  // The products read both weights twice.
  EXPECT_GE(work.product_bytes(), 2u * 4 * (4 * 8 + 8 * 3));
  EXPECT_GT(work.other_bytes(), 0u);
}

TEST_F(StepWorkTest, AStepOfSeveralBatchesCountsThemAll) {
  v1::JobSpec spec = Job(8);
  spec.mutable_training()->set_accumulate_batches(3);
  const TrainingPrograms programs = Compile(spec);
  const v1::StepWork work = StepWorkOf(programs);
  ASSERT_TRUE(programs.accumulate.has_value());
  const auto kernels = [](const Program& program) {
    return program.launches().size() - program.load_launches();
  };
  EXPECT_EQ(work.kernels(),
            kernels(programs.train) + 2 * kernels(*programs.accumulate));
  EXPECT_EQ(work.product_flops() + work.other_flops(), StepFlopsOf(programs));
}

TEST_F(StepWorkTest, WorkThatNo64BitsHoldIsTheLargestNumber) {
  constexpr uint32_t kUnits = 65'536;
  v1::JobSpec spec = Job(kUnits);
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(kUnits);
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(kUnits);
  spec.mutable_model()->add_layers()->mutable_dense()->set_units(3);
  spec.mutable_training()->set_accumulate_batches(2);
  TrainingPrograms programs = Compile(spec);
  ASSERT_TRUE(programs.accumulate.has_value());
  // A batch takes over 2^37 FLOPs and moves over 2^34 bytes.
  programs.batches_per_step = UINT32_MAX;
  const v1::StepWork work = StepWorkOf(programs);
  EXPECT_EQ(work.product_flops(), UINT64_MAX);
  EXPECT_EQ(work.product_bytes(), UINT64_MAX);
  EXPECT_GT(work.kernels(), uint64_t{UINT32_MAX});
  EXPECT_LT(work.kernels(), UINT64_MAX);
}

TEST_F(StepWorkTest, NamesTheLayersWhoseOutputsAreNoMultipleOf8) {
  const v1::StepWork even = StepWorkOf(Compile(Job(8)));
  ASSERT_EQ(even.odd_products_size(), 1);
  EXPECT_EQ(even.odd_products(0).layer(), "dense_2");
  EXPECT_EQ(even.odd_products(0).outputs(), 3u);
  EXPECT_FALSE(even.odd_products(0).convolution());
  EXPECT_NEAR(even.odd_products(0).share(), 24.0 / 56, 0.1);
  const v1::StepWork odd = StepWorkOf(Compile(Job(9)));
  ASSERT_EQ(odd.odd_products_size(), 2);
  EXPECT_EQ(odd.odd_products(0).layer(), "dense_0") << "it has more FLOPs";
  EXPECT_EQ(odd.odd_products(0).outputs(), 9u);
}

TEST_F(StepWorkTest, FindsWeightsBehindTheCastsOf16Bits) {
  v1::JobSpec spec = Job(9);
  spec.mutable_training()->set_precision(v1::BF16);
  EXPECT_EQ(StepWorkOf(Compile(spec)).odd_products_size(), 2);
}

TEST_F(StepWorkTest, FiltersOfConvolutionsCountAsOutputs) {
  v1::JobSpec spec = Job(8);
  v1::ModelSpec& model = *spec.mutable_model();
  model.Clear();
  for (const int64_t size : {1, 4, 4}) model.add_input_shape(size);
  v1::Conv2d& convolution = *model.add_layers()->mutable_conv2d();
  convolution.set_filters(5);
  convolution.add_kernel(3);
  model.add_layers()->mutable_flatten();
  model.add_layers()->mutable_dense()->set_units(8);
  const auto source = ModelSource::Open(model, "");
  ASSERT_TRUE(source.ok()) << source.status();
  const auto programs = CompileTraining(
      **source, spec, {100, {1, 4, 4}, {.whole = true, .maximum = 2}},
      {&backend_});
  ASSERT_TRUE(programs.ok()) << programs.status();
  const v1::StepWork work = StepWorkOf(*programs);
  ASSERT_EQ(work.odd_products_size(), 1);
  EXPECT_EQ(work.odd_products(0).layer(), "conv2d_0");
  EXPECT_EQ(work.odd_products(0).outputs(), 5u);
  EXPECT_TRUE(work.odd_products(0).convolution());
}

}  // namespace
}  // namespace gpupool::engine
