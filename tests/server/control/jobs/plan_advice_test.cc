#include "server/control/jobs/plan_advice.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cstdint>

#include "server/control/jobs/step_times.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class PlanAdviceTest : public ::testing::Test {
 protected:
  PlanAdviceTest() {
    spec_.mutable_training()->set_batch_size(32);
    spec_.mutable_training()->mutable_cross_entropy();
    plan().mutable_training()->set_peak(5 << 20);
    AddDevice("cuda:0", "cuda");
  }

  void AddDevice(const std::string& name, const std::string& kind) {
    v1::Device& device = devices_.emplace_back();
    device.set_name(name);
    device.set_kind(kind);
    device.mutable_peak_rates()->set_float32_flops(2e12);
    device.mutable_peak_rates()->set_bytes(1e12);
  }
  v1::Plan& plan() { return *response_.mutable_plan(); }
  // Adds the result of a search on 64 MiB.
  v1::LargestBatch& Found(uint32_t batch, uint32_t too_large) {
    v1::LargestBatch& found = *response_.add_largest_batches();
    found.add_devices("cuda:0");
    found.set_limit_bytes(64 << 20);
    found.set_batch_size(batch);
    found.set_peak_bytes(63 << 20);
    found.set_too_large(too_large);
    return found;
  }
  v1::StepTime& Time(double compute, double launch) {
    v1::StepTime& time = *response_.add_step_times();
    time.add_devices("cuda:0");
    time.set_compute_seconds(compute);
    time.set_launch_seconds(launch);
    time.set_seconds(std::max(compute, launch));
    plan().mutable_step_work()->set_kernels(
        static_cast<uint64_t>(launch / kLaunchSeconds + 0.5));
    plan().mutable_step_work()->set_product_flops(261'000'000);
    return time;
  }
  void AddOdd(uint64_t outputs, double share) {
    v1::OddProduct& odd = *plan().mutable_step_work()->add_odd_products();
    odd.set_layer("dense_1");
    odd.set_outputs(outputs);
    odd.set_share(share);
  }
  PlannedJob Job() const {
    return {.spec = spec_,
            .response = response_,
            .devices = devices_,
            .pool_has_cpus = pool_has_cpus_,
            .rows = rows_};
  }

  v1::JobSpec spec_;
  v1::PlanJobResponse response_;
  std::vector<v1::Device> devices_;
  bool pool_has_cpus_ = false;
  uint64_t rows_ = 60'000;
};

using BatchAdviceTest = PlanAdviceTest;

TEST_F(BatchAdviceTest, NamesTheLargestAndAMultipleOf8ToWrite) {
  Found(907, 908);
  EXPECT_THAT(
      BatchAdvice(Job()),
      ElementsAre("the largest batch_size on cuda:0 is 907 (63.0 MiB of 64.0 "
                  "MiB; 32 takes 5.0 MiB); for the most that fits write "
                  "batch_size: 904, and check the learning rate"));
}

TEST_F(BatchAdviceTest, WhatIsNotProvenIsAtLeastThat) {
  Found(907, 909);
  EXPECT_THAT(BatchAdvice(Job()), ElementsAre(HasSubstr("is at least 907 (")));
}

TEST_F(BatchAdviceTest, NothingIsCalledTheLargestIfNoneIsKnownToBeTooLarge) {
  Found(321, 0);
  EXPECT_THAT(
      BatchAdvice(Job()),
      ElementsAre("batch_size can grow to at least 320 on cuda:0 (about 63.0 "
                  "MiB of 64.0 MiB; 32 takes 5.0 MiB): write batch_size: 320, "
                  "and check the learning rate"));
  response_.clear_largest_batches();
  Found(32, 0);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre("batch_size 32 fits on cuda:0, with 5.0 MiB of 64.0 "
                          "MiB; no larger one is known to fit"));
}

TEST_F(BatchAdviceTest, BatchesOfSeveralDevicesAreMultiplesOfThem) {
  spec_.set_devices(3);
  Found(906, 909);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(AllOf(HasSubstr("is 906 ("),
                                HasSubstr("write batch_size: 888,"))));
}

TEST_F(BatchAdviceTest, ABatchThatDoesNotFitIsSplitIntoEqualParts) {
  spec_.mutable_training()->set_batch_size(4096);
  plan().mutable_training()->set_peak(280 << 20);
  Found(907, 908);
  EXPECT_THAT(
      BatchAdvice(Job()),
      ElementsAre("batch_size 4096 takes 280.0 MiB and does not fit on cuda:0, "
                  "which has 64.0 MiB; the largest that does is 907; write "
                  "batch_size: 512 and accumulate_batches: 8 for the same rows "
                  "a step"));
  // The batch that just fits is not split further.
  response_.clear_largest_batches();
  Found(1024, 1025);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr(
                  "write batch_size: 1024 and accumulate_batches: 4")));
}

TEST_F(BatchAdviceTest, BatchesThatAreAccumulatedAlreadyAreMore) {
  spec_.mutable_training()->set_batch_size(64);
  spec_.mutable_training()->set_accumulate_batches(3);
  plan().mutable_training()->set_peak(65 << 20);
  Found(63, 64);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr(
                  "write batch_size: 32 and accumulate_batches: 6 for the")));
}

TEST_F(BatchAdviceTest, ABatchWithoutEqualPartsIsSplitIntoAboutEqualOnes) {
  spec_.mutable_training()->set_batch_size(97);
  plan().mutable_training()->set_peak(65 << 20);
  Found(40, 41);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr("write batch_size: 32 and "
                                    "accumulate_batches: 3 for about the")));
}

TEST_F(BatchAdviceTest, TheBatchMayBeTheLargestAlready) {
  plan().mutable_training()->set_peak(64 << 20);
  Found(32, 33);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre("batch_size 32 is the largest that fits on cuda:0, "
                          "with 64.0 MiB of 64.0 MiB"));
}

TEST_F(BatchAdviceTest, ASingleRowMayBeTooMuch) {
  plan().mutable_training()->set_peak(65 << 20);
  Found(0, 1);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr("not even batch_size 1 fits on cuda:0")));
  response_.clear_largest_batches();
  Found(0, 0);
  EXPECT_THAT(BatchAdvice(Job()), IsEmpty()) << "the search found nothing";
  response_.clear_largest_batches();
  Found(0, 64);
  EXPECT_THAT(BatchAdvice(Job()), IsEmpty()) << "nobody planned fewer rows";
  spec_.set_devices(64);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr("not even batch_size 64 fits on cuda:0")));
}

TEST_F(BatchAdviceTest, AllRowsMayFit) {
  rows_ = 1437;
  Found(1437, 0);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr("every batch_size up to 1437, all rows")));
  rows_ = 1438;  // one row more, which was not planned
  EXPECT_THAT(BatchAdvice(Job()), ElementsAre(HasSubstr("at least 1432")));
}

TEST_F(BatchAdviceTest, AllRowsOfAStepAreThoseOfItsBatches) {
  rows_ = 1437;
  spec_.mutable_training()->set_accumulate_batches(4);
  Found(359, 0);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr(
                  "every batch_size up to 359, all rows in one step, fits")));
  rows_ = 1440;  // 360 a batch
  EXPECT_THAT(BatchAdvice(Job()), ElementsAre(HasSubstr("at least 352")));
}

TEST_F(BatchAdviceTest, EveryBatchThatAJobMayHaveMayFit) {
  rows_ = 4'000'000;
  Found(1'048'576, 0);
  const auto limit = ElementsAre(
      "every batch_size up to the limit of 1048576 fits on cuda:0 (63.0 MiB of "
      "64.0 MiB)");
  EXPECT_THAT(BatchAdvice(Job()), limit);
  rows_ = 0;
  EXPECT_THAT(BatchAdvice(Job()), limit) << "the data is not known";
  response_.mutable_largest_batches(0)->set_batch_size(1'048'575);
  EXPECT_THAT(BatchAdvice(Job()), ElementsAre(HasSubstr("at least 1048568")));
}

TEST_F(BatchAdviceTest, TheBatchToWriteIsLargerThanTheJobs) {
  spec_.mutable_training()->set_batch_size(100);
  Found(103, 104);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr("write batch_size: 103, and")));
  response_.clear_largest_batches();
  Found(105, 106);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr("write batch_size: 104, and")));
}

TEST_F(BatchAdviceTest, PartsLeaveRoomForTheSumsOfGradients) {
  spec_.mutable_training()->set_batch_size(4096);
  plan().mutable_training()->set_peak(280 << 20);
  plan().mutable_training()->set_weights(8 << 20);
  // A row takes 217 MiB / 3072, and 8 MiB are 114 rows.
  Found(1024, 1025);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr(
                  "write batch_size: 512 and accumulate_batches: 8")));
  plan().mutable_training()->set_weights(280 << 20);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(AllOf(HasSubstr("write batch_size: 1024"),
                                Not(HasSubstr("accumulate_batches")))));
  // The plans of a job that accumulates have the sums.
  spec_.mutable_training()->set_accumulate_batches(2);
  EXPECT_THAT(BatchAdvice(Job()),
              ElementsAre(HasSubstr(
                  "write batch_size: 1024 and accumulate_batches: 8")));
}

using SmallJobAdviceTest = PlanAdviceTest;

TEST_F(SmallJobAdviceTest, ComputingAsLongAsStartingKernelsIsNotSmall) {
  Time(300e-6, 300e-6);
  EXPECT_THAT(SmallJobAdvice(Job()), IsEmpty());
}

TEST_F(SmallJobAdviceTest, LessIsSmallAndTheBatchGrowsByTheRatio) {
  Time(100e-6, 300e-6);
  Found(907, 908);
  EXPECT_THAT(
      SmallJobAdvice(Job()),
      ElementsAre("the job is too small for cuda:0: the 261M FLOPs of a step "
                  "take 100 us at peak rates, and starting its 100 kernels "
                  "takes 300 us (3 us each); write batch_size: 96 or more"));
}

TEST_F(SmallJobAdviceTest, ABatchThatWouldNotFitIsNotAdvised) {
  Time(100e-6, 300e-6);
  Found(95, 96);
  EXPECT_THAT(SmallJobAdvice(Job()),
              ElementsAre(AllOf(Not(HasSubstr("write")),
                                HasSubstr("that others use as well"))));
  pool_has_cpus_ = true;
  EXPECT_THAT(SmallJobAdvice(Job()),
              ElementsAre(HasSubstr("write device: cpu")));
}

TEST_F(SmallJobAdviceTest, ProcessorsStartNoKernels) {
  Time(1e-9, 0);
  EXPECT_THAT(SmallJobAdvice(Job()), IsEmpty());
}

using OddSizeAdviceTest = PlanAdviceTest;

TEST_F(OddSizeAdviceTest, AVocabularyIsPaddedToAMultipleOf8) {
  spec_.mutable_training()->set_precision(v1::BF16);
  AddOdd(50257, 0.62);
  v1::TensorSpec& output = *plan().add_outputs();
  output.add_shape(-1);
  output.add_shape(50257);
  EXPECT_THAT(
      OddSizeAdvice(Job()),
      ElementsAre("layer dense_1 has 50257 outputs, no multiple of 8 as tensor "
                  "cores want it, and 62% of the FLOPs of products; pad the "
                  "classes (or the vocabulary) from 50257 to 50264: write "
                  "units: 50264"));
  spec_.mutable_model()->mutable_onnx();
  EXPECT_THAT(OddSizeAdvice(Job()),
              ElementsAre(HasSubstr("export the model with 50264")));
  spec_.mutable_training()->mutable_mean_squared_error();
  EXPECT_THAT(OddSizeAdvice(Job()), IsEmpty()) << "targets have that size";
}

TEST_F(OddSizeAdviceTest, ThePrecisionDecidesTheMultiple) {
  AddOdd(12, 1);
  const auto count = [&](v1::Precision precision) {
    spec_.mutable_training()->set_precision(precision);
    return OddSizeAdvice(Job()).size();
  };
  EXPECT_EQ(count(v1::BF16), 1u);
  EXPECT_EQ(count(v1::FP16), 1u);
  EXPECT_EQ(count(v1::HIGH), 0u) << "a multiple of 4";
  plan().mutable_step_work()->mutable_odd_products(0)->set_outputs(13);
  EXPECT_EQ(count(v1::HIGH), 1u);
  EXPECT_EQ(count(v1::HIGHEST), 0u);
  EXPECT_EQ(count(v1::PRECISION_UNSPECIFIED), 0u);
}

TEST_F(OddSizeAdviceTest, SmallLayersAndProcessorsDoNotMatter) {
  spec_.mutable_training()->set_precision(v1::FP16);
  AddOdd(13, 0.05);
  AddOdd(15, 0.049);
  EXPECT_THAT(OddSizeAdvice(Job()),
              ElementsAre(AllOf(HasSubstr("has 13 outputs"),
                                HasSubstr("write units: 16"))));
  devices_.clear();
  AddDevice("cpu:0", "cpu");
  EXPECT_THAT(OddSizeAdvice(Job()), IsEmpty());
}

TEST_F(OddSizeAdviceTest, AtMostThreeLayersAreNamed) {
  spec_.mutable_training()->set_precision(v1::FP16);
  for (int i = 0; i < 4; ++i) AddOdd(13, 0.25);
  EXPECT_EQ(OddSizeAdvice(Job()).size(), 3u);
}

TEST_F(OddSizeAdviceTest, ConvolutionsHaveFilters) {
  spec_.mutable_training()->set_precision(v1::FP16);
  AddOdd(30, 1);
  plan().mutable_step_work()->mutable_odd_products(0)->set_convolution(true);
  EXPECT_THAT(OddSizeAdvice(Job()),
              ElementsAre(AllOf(HasSubstr("has 30 filters"),
                                HasSubstr("write filters: 32"))));
}

TEST_F(OddSizeAdviceTest, ATiedLayerHasTheEntriesOfItsEmbedding) {
  spec_.mutable_training()->set_precision(v1::BF16);
  v1::ModelSpec& model = *spec_.mutable_model();
  model.add_layers()->mutable_embedding()->set_entries(13);
  v1::Layer& layer = *model.add_layers();
  layer.mutable_dense()->set_tied_to("embedding_0");
  AddOdd(13, 1);
  EXPECT_THAT(OddSizeAdvice(Job()), ElementsAre(HasSubstr("write entries: 16")))
      << "without a name";
  layer.set_name("dense_1");
  EXPECT_THAT(OddSizeAdvice(Job()),
              ElementsAre(HasSubstr("write entries: 16")));
  layer.set_name("scores");
  model.add_layers()->mutable_dense()->set_units(13);
  model.mutable_layers(2)->set_name("dense_1");
  EXPECT_THAT(OddSizeAdvice(Job()), ElementsAre(HasSubstr("write units: 16")));
}

TEST_F(OddSizeAdviceTest, OfANamedModelOnlyTheClassesAreTheUsers) {
  spec_.mutable_training()->set_precision(v1::BF16);
  spec_.mutable_model()->mutable_named()->mutable_lenet5();
  AddOdd(84, 0.5);
  EXPECT_THAT(OddSizeAdvice(Job()), IsEmpty());
  v1::TensorSpec& output = *plan().add_outputs();
  output.add_shape(-1);
  output.add_shape(84);
  EXPECT_THAT(OddSizeAdvice(Job()),
              ElementsAre(HasSubstr("from 84 to 88: write classes: 88")));
  spec_.mutable_model()->mutable_named()->mutable_gpt_tiny();
  EXPECT_THAT(OddSizeAdvice(Job()),
              ElementsAre(HasSubstr("from 84 to 88: write vocabulary: 88")));
}

using TimeAdviceTest = PlanAdviceTest;

TEST_F(TimeAdviceTest, AnEstimateSaysWhatItIsMadeOf) {
  Time(2.5e-3, 300e-6);
  plan().mutable_step_work()->set_product_bytes(3 << 20);
  response_.set_total_steps(900);
  EXPECT_THAT(
      TimeAdvice(Job()),
      ElementsAre(
          "a step is estimated at about 2.5 ms on cuda:0, from 261M "
          "FLOPs and 3.0 MiB at peak rates, which programs seldom reach "
          "(2T float32 FLOPs, 1T bytes a second), and 100 kernels of "
          "at least 3 us; all 900 steps take about 2.25 s"));
}

TEST_F(TimeAdviceTest, AnEstimateSaysThatItsRatesAreMeasured) {
  Time(2.5e-3, 0).set_at_measured_rates(true);
  devices_[0].mutable_measured_rates()->set_float32_flops(1e12);
  devices_[0].mutable_peak_rates()->set_bytes(0);
  EXPECT_THAT(
      TimeAdvice(Job()),
      ElementsAre("a step is estimated at about 2.5 ms on cuda:0, from 261M "
                  "FLOPs at the rates that `gpupool devices bench` measured "
                  "(1T float32 FLOPs a second)"));
}

TEST_F(TimeAdviceTest, WithoutTheRateOfAMemoryItsBytesAreNotTold) {
  Time(2.5e-3, 0);
  devices_[0].mutable_peak_rates()->set_bytes(0);
  EXPECT_THAT(
      TimeAdvice(Job()),
      ElementsAre(
          "a step is estimated at about 2.5 ms on cuda:0, from 261M "
          "FLOPs at peak rates, which programs seldom reach (2T float32 "
          "FLOPs a second)"));
}

TEST_F(TimeAdviceTest, AMeasuredTimeIsNotCalledEstimated) {
  v1::StepTime& time = Time(2.5e-3, 0);
  time.set_seconds(0.25);
  time.set_measured_seconds(0.25);
  time.set_measured_job_id(7);
  response_.set_total_steps(901);
  EXPECT_THAT(
      TimeAdvice(Job()),
      ElementsAre("a step took 250 ms on cuda:0 in job 7, which had the same "
                  "plan; all 901 steps take 3.75 min: write "
                  "expected_run_seconds: 226 so that others know when the "
                  "device is free"));
  spec_.set_expected_run_seconds(200);
  EXPECT_THAT(TimeAdvice(Job()), ElementsAre(Not(HasSubstr("write"))));
}

TEST_F(TimeAdviceTest, ATimeThatNoJobMayRunIsNotTold) {
  v1::StepTime& time = Time(2.5e-3, 0);
  time.set_seconds(0.25);
  time.set_measured_job_id(7);
  response_.set_total_steps(4'000'000'000);
  EXPECT_THAT(TimeAdvice(Job()),
              ElementsAre(HasSubstr("expected_run_seconds: 1000000000 ")));
  for (const uint64_t steps : {uint64_t{4'000'000'004}, UINT64_MAX}) {
    response_.set_total_steps(steps);
    EXPECT_THAT(TimeAdvice(Job()),
                ElementsAre(AllOf(HasSubstr("a step took 250 ms"),
                                  Not(HasSubstr("steps take")))));
  }
}

TEST_F(PlanAdviceTest, BatchesComeFirstAndTimesLast) {
  Found(907, 908);
  Time(100e-6, 300e-6);
  EXPECT_THAT(PlanAdvice(Job()),
              ElementsAre(HasSubstr("largest batch_size"),
                          HasSubstr("too small"), HasSubstr("estimated")));
}

}  // namespace
}  // namespace gpupool::server
