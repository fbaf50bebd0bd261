#include "engine/session.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <thread>

#include "tests/engine/session_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionTest : public SessionFixture {};

TEST_F(SessionTest, InspectsTheDigits) {
  const v1::Dataset digits = Digits();
  EXPECT_EQ(digits.rows(), 1797u);
  EXPECT_THAT(digits.feature_shape(), ElementsAre(64));
  EXPECT_EQ(digits.classes(), 10u);
}

TEST_F(SessionTest, TrainsTheDigitsToHighAccuracy) {
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ((*run)->steps_per_epoch(), 1438u / 32);
  EXPECT_EQ((*run)->total_steps(), 440u);
  EXPECT_EQ((*run)->epoch(), 0u);
  const auto begin = std::chrono::steady_clock::now();
  StepTo(**run, (*run)->total_steps());
  const std::chrono::duration<double> seconds =
      std::chrono::steady_clock::now() - begin;
  EXPECT_TRUE((*run)->done());
  EXPECT_EQ((*run)->epoch(), 10u);
  EXPECT_TRUE((*run)->at_epoch_end());
  EXPECT_LT(*(*run)->Loss(), 0.5);
  EXPECT_EQ((*run)->Step().code(), absl::StatusCode::kFailedPrecondition);
  auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_EQ(evaluation->rows(), 359u);
  EXPECT_EQ(evaluation->step(), 440u);
  EXPECT_GE(evaluation->accuracy(), 0.97);
  EXPECT_LT(evaluation->loss(), 0.15);
  std::printf("accuracy %.4f loss %.4f %.0f samples/s\n",
              evaluation->accuracy(), evaluation->loss(),
              440 * 32 / seconds.count());
}

TEST_F(SessionTest, ResumingGivesTheWeightsOfAnUndisturbedRun) {
  v1::JobSpec spec = DigitsJob();
  // Dropout, batch norm, momentum and a schedule: every kind of state.
  v1::ModelSpec model;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(input_shape: [ 1, 8, 8 ]
           layers { conv2d { filters: 8 kernel: 3 padding: 1 } }
           layers { batch_norm {} }
           layers { relu {} }
           layers { flatten {} }
           layers { dropout { probability: 0.25 } }
           layers { dense { units: 10 } })pb",
      &model));
  *spec.mutable_model() = model;
  spec.mutable_data()->mutable_scaling()->mutable_standardize();
  spec.mutable_training()->set_steps(100);
  spec.mutable_training()->mutable_schedule()->mutable_cosine();
  spec.mutable_training()->mutable_schedule()->set_warmup_steps(10);
  for (const bool adam : {true, false}) {
    if (!adam) {
      session_ = Open("cpu:0", 2);
      spec.mutable_training()->mutable_sgd()->set_learning_rate(0.05);
      spec.mutable_training()->mutable_sgd()->set_momentum(0.9);
    }
    auto whole = Start(spec);
    ASSERT_TRUE(whole.ok()) << whole.status();
    StepTo(**whole, 100);
    auto undisturbed = (*whole)->SaveCheckpoint();
    ASSERT_TRUE(undisturbed.ok()) << undisturbed.status();

    auto first = Start(spec);
    ASSERT_TRUE(first.ok());
    StepTo(**first, 57);  // in the middle of the second epoch
    auto saved = (*first)->SaveCheckpoint();
    ASSERT_TRUE(saved.ok()) << saved.status();
    EXPECT_EQ(saved->step(), 57u);
    StepTo(**first, 70);  // work that the interruption loses
    first->reset();

    auto resumed = Start(spec, saved->manifest_sha256());
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ((*resumed)->step(), 57u);
    EXPECT_EQ((*resumed)->Loss().status().code(),
              absl::StatusCode::kFailedPrecondition);
    StepTo(**resumed, 100);
    auto end = (*resumed)->SaveCheckpoint();
    ASSERT_TRUE(end.ok());
    EXPECT_EQ(FilesOf(*end), FilesOf(*undisturbed));
    EXPECT_NE(FilesOf(*end), FilesOf(*saved));
  }
}

TEST_F(SessionTest, EvaluatingAndSavingDoNotDisturbTraining) {
  auto plain = Start(DigitsJob());
  auto watched = Start(DigitsJob());
  ASSERT_TRUE(plain.ok() && watched.ok());
  StepTo(**plain, 30);
  for (uint64_t step = 10; step <= 30; step += 10) {
    StepTo(**watched, step);
    ASSERT_TRUE((*watched)->Evaluate().ok());
    ASSERT_TRUE((*watched)->SaveCheckpoint().ok());
  }
  // The manifests differ, because only one contains its evaluations.
  EXPECT_EQ(FilesOf(*(*plain)->SaveCheckpoint()),
            FilesOf(*(*watched)->SaveCheckpoint()));
}

TEST_F(SessionTest, APlanTellsTheWorkOfAStepAndTheMostRowsOfABatch) {
  const auto plan = session_->PlanTraining(DigitsJob(), Digits());
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->training_rows, 1438u);
  const v1::StepWork& work = plan->plan.step_work();
  EXPECT_GT(work.kernels(), 0u);
  EXPECT_EQ(work.product_flops() + work.other_flops(),
            plan->plan.training_flops_per_step());
  // The last layer has 10 outputs, the others multiples of 8.
  ASSERT_EQ(work.odd_products_size(), 1);
  EXPECT_EQ(work.odd_products(0).outputs(), 10u);
}

TEST_F(SessionTest, SeedsGiveDifferentWeights) {
  v1::JobSpec spec = DigitsJob();
  auto first = Start(spec);
  spec.mutable_training()->set_seed(8);
  auto second = Start(spec);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_NE(FilesOf(*(*first)->SaveCheckpoint()),
            FilesOf(*(*second)->SaveCheckpoint()));
}

TEST_F(SessionTest, PlannedPeakIsTheMeasuredPeakToTheByte) {
  const v1::Dataset digits = Digits();
  auto plan = session_->PlanTraining(DigitsJob(), digits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->total_steps, 440u);
  const uint64_t peak = plan->plan.training().peak();
  session_ = Open("cpu:0");  // nothing allocated yet
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 3);
  ASSERT_TRUE((*run)->Evaluate().ok());
  ASSERT_TRUE((*run)->SaveCheckpoint().ok());
  EXPECT_EQ((*run)->memory().planned_peak_bytes(), peak);
  EXPECT_EQ((*run)->memory().measured_peak_bytes(), peak);
  EXPECT_EQ(session_->memory_stats().peak_allocated_bytes(), peak);
  run->reset();
  EXPECT_EQ(session_->memory_stats().allocated_bytes(), 0u);
}

TEST_F(SessionTest, PlansTheHostMemoryOfTheDataset) {
  const v1::Dataset digits = Digits();
  EXPECT_EQ(digits.feature_type(), v1::FLOAT32);
  auto plan = session_->PlanTraining(DigitsJob(), digits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan.host_data_bytes(), 1797u * 65 * 4);
  v1::JobSpec spec = DigitsJob();
  spec.mutable_data()->clear_held_out();
  spec.mutable_data()->set_validation("val");
  plan = session_->PlanTraining(spec, digits, digits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan.host_data_bytes(), 2u * 1797 * 65 * 4);
  auto session = Session::Create({.device = *ParseDevice("cpu:0"),
                                  .blob_dir = blob_dir_,
                                  .unpack_dir = blob_dir_,
                                  .data_memory_bytes = 1000});
  ASSERT_TRUE(session.ok()) << session.status();
  plan = (*session)->PlanTraining(DigitsJob(), digits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan.host_data_bytes(), 0u) << "mapped";
}

TEST_F(SessionTest, ThePlannedBytesAreEnoughAndNoneIsSpare) {
  const v1::Dataset digits = Digits();
  auto plan = session_->PlanTraining(DigitsJob(), digits);
  ASSERT_TRUE(plan.ok()) << plan.status();
  TrainingRequest request{
      .job_id = 7, .attempt = 1, .spec = DigitsJob(), .dataset = digits};
  request.limit_bytes = plan->plan.training().peak() - 1;
  EXPECT_EQ(session_->StartTraining(request).status().code(),
            absl::StatusCode::kResourceExhausted);
  request.limit_bytes = plan->plan.training().peak();
  auto run = session_->StartTraining(request);
  ASSERT_TRUE(run.ok()) << run.status();
  auto checkpoint = (*run)->SaveCheckpoint();
  ASSERT_TRUE(checkpoint.ok());
  const uint64_t peak = plan->plan.inference().peak();
  LoadRequest load{.name = "digits/1",
                   .manifest_sha256 = checkpoint->manifest_sha256(),
                   .max_batch_size = 32,
                   .limit_bytes = peak - 1};
  EXPECT_EQ(session_->LoadModel(load).status().code(),
            absl::StatusCode::kResourceExhausted);
  load.limit_bytes = peak;
  auto model = session_->LoadModel(load);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->measured_bytes(), peak);
}

TEST_F(SessionTest, MetaPlansAsTheDeviceItselfDoes) {
  auto meta = Open("meta");
  const v1::Dataset digits = Digits();
  auto planned = meta->PlanTraining(DigitsJob(), digits);
  auto expected = session_->PlanTraining(DigitsJob(), digits);
  ASSERT_TRUE(planned.ok()) << planned.status();
  ASSERT_TRUE(expected.ok()) << expected.status();
  EXPECT_EQ(planned->plan.SerializeAsString(),
            expected->plan.SerializeAsString());
  EXPECT_EQ(planned->total_steps, expected->total_steps);
  EXPECT_EQ(meta->memory_stats().allocations(), 0u);
}

TEST_F(SessionTest, MetaNeitherTrainsNorServes) {
  auto meta = Open("meta");
  EXPECT_EQ(meta->StartTraining({}).status().code(),
            absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(meta->LoadModel({}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(SessionTest, PlansNameLayersParametersAndFlops) {
  auto plan =
      session_->PlanInference(DigitsJob().model(), {.max_batch_size = 8});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const uint64_t conv0 = 16 * 9 + 16, conv1 = 32 * 16 * 9 + 32;
  const uint64_t dense = 32 * 4 * 4 * 10 + 10;
  EXPECT_EQ(plan->parameters(), conv0 + conv1 + dense);
  ASSERT_EQ(plan->layers_size(), 7);
  EXPECT_EQ(plan->layers(0).name(), "conv2d_0");
  EXPECT_EQ(plan->layers(0).parameters(), conv0);
  EXPECT_THAT(plan->layers(0).output_shape(), ElementsAre(16, 8, 8));
  EXPECT_GE(plan->layers(0).flops(), 2u * 16 * 64 * 9 - 2u * 16 * 100);
  EXPECT_EQ(plan->layers(6).kind(), "dense");
  ASSERT_EQ(plan->inputs_size(), 1);
  EXPECT_THAT(plan->inputs(0).shape(), ElementsAre(-1, 1, 8, 8));
  EXPECT_EQ(plan->inputs(0).data_type(), v1::FLOAT32);
  ASSERT_EQ(plan->outputs_size(), 1);
  EXPECT_THAT(plan->outputs(0).shape(), ElementsAre(-1, 10));
  EXPECT_FALSE(plan->has_training());
  EXPECT_GT(plan->inference().weights(), plan->parameters() * 4 - 1);
}

TEST_F(SessionTest, ASpoiledCheckpointIsDataLoss) {
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  auto checkpoint = (*run)->SaveCheckpoint();
  ASSERT_TRUE(checkpoint.ok());
  const std::string files = FilesOf(*checkpoint);
  const size_t at = files.find("\"sha256\": \"");
  ASSERT_NE(at, std::string::npos);
  const std::string weights = files.substr(at + 11, 64);
  std::ofstream(blob_dir_ + "/" + weights, std::ios::app) << "x";
  LoadRequest request{.name = "digits/1",
                      .manifest_sha256 = checkpoint->manifest_sha256(),
                      .max_batch_size = 1};
  EXPECT_EQ(session_->LoadModel(request).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_EQ(Start(DigitsJob(), checkpoint->manifest_sha256()).status().code(),
            absl::StatusCode::kDataLoss);
  EXPECT_GT(session_->memory_stats().allocated_bytes(), 0u)
      << "the run is still there";
}

TEST_F(SessionTest, ALossThatIsNotFiniteFailsTheJobWithAHint) {
  v1::JobSpec spec = DigitsJob();
  spec.mutable_data()->clear_scaling();
  spec.mutable_training()->mutable_sgd()->set_learning_rate(1e9);
  auto run = Start(spec);
  ASSERT_TRUE(run.ok()) << run.status();
  auto good = (*run)->SaveCheckpoint();
  absl::Status status;
  while (status.ok() && !(*run)->done()) status = (*run)->Step();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(IsJobsOwnFault(status));
  const v1::JobError error = ToJobError(status, (*run)->step());
  EXPECT_THAT(error.message(), HasSubstr("at step "));
  EXPECT_THAT(error.hint(), HasSubstr("lower the learning rate"));
  EXPECT_EQ(error.step(), (*run)->step());
  EXPECT_FALSE((*run)->SaveCheckpoint().ok()) << "spoiled weights";
  EXPECT_FALSE((*run)->Evaluate().ok());
  EXPECT_TRUE(Start(spec, good->manifest_sha256()).ok())
      << "the good checkpoint is kept";
}

TEST_F(SessionTest, MemoryLimitsAreNamed) {
  auto small = Open("cpu:0", 1, 64 << 10);
  auto run = small->StartTraining(
      {.job_id = 1, .attempt = 1, .spec = DigitsJob(), .dataset = Digits()});
  EXPECT_EQ(run.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(IsJobsOwnFault(run.status()));
  EXPECT_EQ(small->memory_stats().allocated_bytes(), 0u);
  EXPECT_EQ(small->memory_stats().out_of_memory(), 1u);
  auto bounded = session_->StartTraining({.job_id = 1,
                                          .attempt = 1,
                                          .spec = DigitsJob(),
                                          .dataset = Digits(),
                                          .limit_bytes = 64 << 10});
  EXPECT_EQ(bounded.status().code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(SessionTest, BadJobsAreRefusedAtPlanningWithTheRemedy) {
  const v1::Dataset digits = Digits();
  auto refuse = [&](void (*change)(v1::JobSpec&)) {
    v1::JobSpec spec = DigitsJob();
    change(spec);
    auto plan = session_->PlanTraining(spec, digits);
    EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(plan.status().message());
  };
  EXPECT_EQ(refuse([](v1::JobSpec& s) {
              s.mutable_training()->set_batch_size(4096);
            }),
            "batch_size 4096 is larger than the 1438 training rows; lower it "
            "to at most 1438");
  EXPECT_THAT(
      refuse([](v1::JobSpec& s) { s.mutable_model()->set_input_shape(1, 9); }),
      HasSubstr("[1, 9, 8] takes 72 numbers, but a row of the dataset "
                "has 64"));
  EXPECT_THAT(
      refuse([](v1::JobSpec& s) {
        s.mutable_model()->mutable_layers(6)->mutable_dense()->set_units(5);
      }),
      HasSubstr("labels 0 to 9"));
  EXPECT_THAT(refuse([](v1::JobSpec& s) {
                s.mutable_training()->mutable_mean_squared_error();
              }),
              HasSubstr("dense units 1"));
  EXPECT_THAT(refuse([](v1::JobSpec& s) {
                s.mutable_model()->mutable_layers(0)->clear_kind();
              }),
              HasSubstr("layer"));
}

TEST_F(SessionTest, ABrokenLineIsNamed) {
  EXPECT_THAT(
      Store("bad.csv", "1,2,0\n1,two,1\n").status().message(),
      HasSubstr("bad.csv: line 2 column 2: \"two\" is not a finite number"));
}

TEST_F(SessionTest, MemoryGettersWorkWhileTraining) {
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  std::thread reader([&] {
    for (int i = 0; i < 50; ++i) {
      EXPECT_GT(session_->memory_stats().allocated_bytes(), 0u);
      EXPECT_THAT(session_->MemorySummary(), HasSubstr("job 7 / weights"));
      EXPECT_GE(session_->Snapshot().segments_size(), 1);
    }
  });
  StepTo(**run, 40);
  reader.join();
  const v1::Device info = session_->info();
  EXPECT_EQ(info.name(), "cpu:0");
  EXPECT_EQ(info.kind(), "cpu");
  EXPECT_EQ(info.limit_bytes(), 1u << 30);
}

TEST_F(SessionTest, AFractionBoundsWhatIsGivenOutAndTheErrorSaysWhatToDo) {
  EXPECT_EQ(session_->SetMemoryFraction(0).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(session_->SetMemoryFraction(1.01).code(),
            absl::StatusCode::kInvalidArgument);
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  const absl::Status held = session_->SetMemoryFraction(1e-6);
  EXPECT_EQ(held.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(held.message()), HasSubstr("job 7 / "));
  const v1::MemoryStats stats = session_->memory_stats();
  const double all = static_cast<double>(stats.limit_bytes());
  ASSERT_TRUE(
      session_
          ->SetMemoryFraction(
              (static_cast<double>(stats.allocated_bytes()) + 1000) / all)
          .ok());
  EXPECT_LE(session_->memory_stats().limit_bytes(),
            stats.allocated_bytes() + 1000);
  const absl::Status none = Start(DigitsJob()).status();
  EXPECT_EQ(none.code(), absl::StatusCode::kResourceExhausted);
  for (const char* part : {"for job 7 / ", "Limit ", "Held by job 7 / ",
                           "Fragmentation: ", "Remedies: ", "raise the"}) {
    EXPECT_THAT(ToJobError(none, 0).message(), HasSubstr(part));
  }
  EXPECT_TRUE(session_->SetMemoryFraction(1).ok());
  EXPECT_TRUE(Start(DigitsJob()).ok());
}

TEST_F(SessionTest, DumpsHoldTheBlocksAndWhatHappened) {
  EXPECT_EQ(session_->RecordMemoryHistory(uint64_t{1} << 40).code(),
            absl::StatusCode::kInvalidArgument);
  ASSERT_TRUE(session_->RecordMemoryHistory(1000).ok());
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  auto dump = session_->DumpMemory();
  ASSERT_TRUE(dump.ok()) << dump.status();
  const std::string full = ReadFile(blob_dir_ + "/" + dump->sha256);
  EXPECT_EQ(full.size(), dump->bytes);
  EXPECT_EQ(Sha256Hex(full), dump->sha256);
  for (const char* part : {"segments", "device_traces", "job 7", "weights",
                           "active_allocated", "segment_map"}) {
    EXPECT_THAT(full, HasSubstr(part));
  }
  ASSERT_TRUE(session_->RecordMemoryHistory(0).ok());
  dump = session_->DumpMemory();
  ASSERT_TRUE(dump.ok()) << dump.status();
  EXPECT_THAT(ReadFile(blob_dir_ + "/" + dump->sha256),
              ::testing::Not(HasSubstr("segment_map")));
}

TEST_F(SessionTest, EveryFigureHasPyTorchsName) {
  auto run = Start(DigitsJob());
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_TRUE(session_->memory_stats().by_pytorch_name().empty());
  const v1::MemoryStats all = session_->AllMemoryStats();
  const auto& named = all.by_pytorch_name();
  EXPECT_GT(named.at("active_bytes.all.current"), 0u);
  EXPECT_EQ(named.at("reserved_bytes.all.current"), all.reserved_bytes());
  EXPECT_EQ(named.at("num_ooms"), all.out_of_memory());
  for (const char* name :
       {"allocation.all.peak", "segment.small_pool.allocated",
        "inactive_split_bytes.large_pool.freed", "num_alloc_retries",
        "requested_bytes.all.peak"}) {
    EXPECT_TRUE(named.contains(name)) << name;
  }
}

}  // namespace
}  // namespace gpupool::engine
