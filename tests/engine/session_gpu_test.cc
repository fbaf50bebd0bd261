// Sessions on a device whose memory the host cannot touch and whose work is
// done late give the same numbers, to the bit, as sessions on the host.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "tests/engine/import/onnx/half_model.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/session_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// Has every kind of state: dropout, batch norm, an average of the weights,
// several batches a step, a schedule, clipping and momenta.
constexpr char kJob[] = R"pb(
  name: "digits"
  model {
    input_shape: [ 1, 8, 8 ]
    layers { conv2d { filters: 4 kernel: 3 padding: 1 } }
    layers { batch_norm {} }
    layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { flatten {} }
    layers { dropout { probability: 0.25 } }
    layers { dense { units: 10 } }
  }
  data {
    dataset: "digits"
    held_out { every: 30 }
    scaling { standardize {} }
  }
  training {
    cross_entropy {}
    adam { learning_rate: 0.01 }
    batch_size: 8
    accumulate_batches: 2
    steps: 24
    seed: 7
    clip_gradient_norm: 1
    ema { decay: 0.9 }
    schedule {
      cosine {}
      warmup_steps: 4
    }
    evaluate_every_steps: 8
    keep_best_checkpoints: 1
  }
)pb";

// The results of a session with the job.
struct Outcome {
  std::string files;  // digests of all tensors of the last checkpoint
  double held_out_loss = 0;
  std::vector<std::vector<float>> answers;  // for 1 row and for 3 rows
  uint64_t planned_peak = 0;
  uint64_t next_batch = 0;  // part of the planned peak
  uint64_t measured_peak = 0;
};

class SessionGpuTest : public SessionFixture {
 protected:
  // The module's log refers to this object.
  void TearDown() override { session_.reset(); }

  static v1::JobSpec Job() {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kJob, &spec));
    return spec;
  }

  void UseGpu(int index) {
    session_.reset();
    auto session = OpenGpu(index);
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }

  absl::StatusOr<std::unique_ptr<Session>> OpenGpu(int index) {
    const auto log = [this](absl::string_view line) {
      log_ = std::string(line);
    };
    return Session::Create(
        {.device = {DeviceType::kCuda, index},
         .blob_dir = blob_dir_,
         .cuda = {.module_dirs = {GPUPOOL_STANDIN_DIR}, .log = log}});
  }

  // Trains with an interruption in the middle, then serves.
  void TrainAndServe(Outcome& outcome) {
    const auto plan = session_->PlanTraining(Job(), Digits());
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_TRUE(plan->plan.warnings().empty());
    outcome.planned_peak = plan->plan.training().peak();
    outcome.next_batch = plan->plan.training().next_batch();
    session_->ResetPeak();
    auto first = Start(Job());
    ASSERT_TRUE(first.ok()) << first.status();
    outcome.measured_peak = session_->memory_stats().peak_allocated_bytes();
    StepTo(**first, 9);
    ASSERT_TRUE((*first)->Evaluate().ok());
    const auto middle = (*first)->SaveCheckpoint();
    ASSERT_TRUE(middle.ok()) << middle.status();
    StepTo(**first, 12);  // lost
    first->reset();
    auto run = Start(Job(), middle->manifest_sha256());
    ASSERT_TRUE(run.ok()) << run.status();
    StepTo(**run, 24);
    const auto evaluation = (*run)->Evaluate();
    ASSERT_TRUE(evaluation.ok()) << evaluation.status();
    outcome.held_out_loss = evaluation->loss();
    const auto end = (*run)->SaveCheckpoint();
    ASSERT_TRUE(end.ok()) << end.status();
    outcome.files = FilesOf(*end);
    run->reset();
    Serve(end->manifest_sha256(), outcome);
  }

  std::unique_ptr<ServedModel> Load(const std::string& manifest) {
    auto model = session_->LoadModel({.version_id = 1,
                                      .name = "digits/1",
                                      .manifest_sha256 = manifest,
                                      .max_batch_size = 4});
    EXPECT_TRUE(model.ok()) << model.status();
    return model.ok() ? *std::move(model) : nullptr;
  }
  static std::vector<float> Ask(ServedModel& model, uint32_t rows) {
    std::vector<float> memory(rows * 74);
    return AskIn(model, rows, memory);
  }
  // Asks the model with the input and output at the beginning of `memory`.
  static std::vector<float> AskIn(ServedModel& model, uint32_t rows,
                                  std::vector<float>& memory) {
    const auto input = absl::MakeSpan(memory).first(rows * 64);
    const auto output = absl::MakeSpan(memory).subspan(rows * 64, rows * 10);
    for (size_t i = 0; i < input.size(); ++i) {
      input[i] = static_cast<float>(i * 7 % 17);
    }
    const absl::Span<const std::byte> from = BytesOf(input);
    const absl::Span<std::byte> to = BytesOf(output);
    const absl::Status status =
        model.Infer({.rows = rows,
                     .inputs = absl::MakeConstSpan(&from, 1),
                     .outputs = absl::MakeConstSpan(&to, 1)},
                    nullptr);
    EXPECT_TRUE(status.ok()) << status;
    return {output.begin(), output.end()};
  }
  static absl::Span<std::byte> BytesOf(absl::Span<float> numbers) {
    return {reinterpret_cast<std::byte*>(numbers.data()), numbers.size() * 4};
  }

  void Serve(const std::string& manifest, Outcome& outcome) {
    const auto model = Load(manifest);
    ASSERT_NE(model, nullptr);
    for (const uint32_t rows : {1u, 3u, 1u}) {
      outcome.answers.push_back(Ask(*model, rows));
    }
  }

  // Trains for 10 steps. With a model, asks it repeatedly while the device runs
  // a step.
  void Train(ServedModel* model, Outcome& outcome) {
    auto run = Start(Job());
    ASSERT_TRUE(run.ok()) << run.status();
    while ((*run)->step() < 10) {
      ASSERT_TRUE((*run)->StartStep().ok());
      for (int polls = 0; !(*run)->StepIsDone(); ++polls) {
        if (model == nullptr || polls % 16 != 0) continue;
        outcome.answers.push_back(Ask(*model, 1u + polls / 16 % 4));
      }
      const absl::Status finished = (*run)->FinishStep();
      ASSERT_TRUE(finished.ok()) << finished;
    }
    const auto end = (*run)->SaveCheckpoint();
    ASSERT_TRUE(end.ok()) << end.status();
    outcome.files = FilesOf(*end);
    manifest_ = end->manifest_sha256();
  }

  static void ExpectSame(const Outcome& one, const Outcome& other) {
    EXPECT_EQ(one.files, other.files);
    EXPECT_EQ(one.held_out_loss, other.held_out_loss);
    EXPECT_EQ(one.answers, other.answers);
    EXPECT_EQ(one.planned_peak, one.measured_peak);
    EXPECT_EQ(one.planned_peak - one.next_batch,
              other.planned_peak - other.next_batch);
    EXPECT_EQ(other.planned_peak, other.measured_peak);
  }

  std::string log_;       // the module's last line
  std::string manifest_;  // of the last checkpoint
};

TEST_F(SessionGpuTest, CpuKernelsOnProtectedMemoryGiveTheBitsOfACpuDevice) {
  Outcome plain;
  TrainAndServe(plain);
  UseGpu(1);
  Outcome guarded;
  TrainAndServe(guarded);
  ExpectSame(guarded, plain);
}

TEST_F(SessionGpuTest, GpuKernelsGiveTheSameBitsOnProtectedAndPlainMemory) {
  UseGpu(2);
  Outcome plain;
  TrainAndServe(plain);
  UseGpu(0);
  Outcome guarded;
  TrainAndServe(guarded);
  ExpectSame(guarded, plain);
}

TEST_F(SessionGpuTest, ServesBesideAStepWithTheBitsOfBothAlone) {
  for (const int gpu : {0, 1}) {
    UseGpu(gpu);
    Outcome alone;
    Train(nullptr, alone);
    auto model = Load(manifest_);
    ASSERT_NE(model, nullptr);
    std::vector<std::vector<float>> wanted;
    for (uint32_t rows = 1; rows <= 4; ++rows) {
      wanted.push_back(Ask(*model, rows));
    }
    Outcome beside;
    Train(model.get(), beside);
    EXPECT_EQ(beside.files, alone.files);
    EXPECT_GE(beside.answers.size(), 20u);  // two in each step
    for (const auto& answer : beside.answers) {
      EXPECT_EQ(answer, wanted[answer.size() / 10 - 1]);
    }
  }
}

// Trains on the digits in batches of 200, two a step and four steps an epoch,
// with an evaluation and a checkpoint in the middle.
class NextBatchTest : public SessionGpuTest {
 protected:
  static constexpr uint64_t kBatchBytes = 200 * (64 * 4 + 8);

  static v1::JobSpec LargeBatches(uint64_t steps) {
    v1::JobSpec spec = Job();
    spec.mutable_training()->set_batch_size(200);
    spec.mutable_training()->set_steps(steps);
    return spec;
  }
  v1::Plan PlanOf(const v1::JobSpec& spec) {
    auto plan = session_->PlanTraining(spec, Digits());
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? plan->plan : v1::Plan();
  }
  // Returns the losses of all steps, and the digests at the end.
  std::pair<std::vector<double>, std::string> Curve(const v1::JobSpec& spec,
                                                    uint64_t limit_bytes = 0) {
    auto run = session_->StartTraining({.job_id = 7,
                                        .attempt = 1,
                                        .spec = spec,
                                        .dataset = Digits(),
                                        .limit_bytes = limit_bytes});
    EXPECT_TRUE(run.ok()) << run.status();
    std::vector<double> losses;
    while (!(*run)->done()) {
      EXPECT_TRUE((*run)->Step().ok());
      losses.push_back(*(*run)->Loss());
      if ((*run)->step() == 3) {
        EXPECT_TRUE((*run)->Evaluate().ok());
        EXPECT_TRUE((*run)->SaveCheckpoint().ok());
      }
    }
    measured_peak_ = (*run)->memory().measured_peak_bytes();
    planned_peak_ = (*run)->memory().planned_peak_bytes();
    return {losses, FilesOf(*(*run)->SaveCheckpoint())};
  }

  uint64_t planned_peak_ = 0;
  uint64_t measured_peak_ = 0;
};

TEST_F(NextBatchTest, IsSentAheadAndChangesNoBit) {
  const v1::JobSpec spec = LargeBatches(10);
  for (const int gpu : {0, 1}) {
    UseGpu(gpu);
    const v1::PlannedBytes planned = PlanOf(spec).training();
    EXPECT_EQ(planned.next_batch(), kBatchBytes);
    // Each step follows directly after the previous one, as in jobs without
    // served models.
    const auto ahead = Curve(spec);
    EXPECT_EQ(measured_peak_, planned.peak());
    EXPECT_EQ(planned_peak_, planned.peak());
    session_.reset();
    EXPECT_THAT(log_, HasSubstr("copies beside 20"));
    UseGpu(gpu);
    const uint64_t without = planned.peak() - planned.next_batch();
    EXPECT_EQ(Curve(spec, without), ahead);
    EXPECT_EQ(measured_peak_, without);
    EXPECT_EQ(planned_peak_, without);
    session_.reset();
    EXPECT_THAT(log_, HasSubstr("copies beside 0"));
  }
}

TEST_F(NextBatchTest, GoesOnFromACheckpointThatWasSavedWithOneOnItsWay) {
  const v1::JobSpec spec = LargeBatches(10);
  for (const int gpu : {0, 1}) {
    UseGpu(gpu);
    const std::string wanted = Curve(spec).second;
    for (const uint64_t step : {1u, 4u, 9u}) {  // 4: at the end of an epoch
      auto first = Start(spec);
      ASSERT_TRUE(first.ok()) << first.status();
      StepTo(**first, step);
      const auto saved = (*first)->SaveCheckpoint();
      ASSERT_TRUE(saved.ok()) << saved.status();
      first->reset();
      auto run = Start(spec, saved->manifest_sha256());
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ((*run)->step(), step);
      StepTo(**run, 10);
      EXPECT_EQ(FilesOf(*(*run)->SaveCheckpoint()), wanted) << "step " << step;
    }
  }
}

TEST_F(NextBatchTest, HasNoPlaceWhereTheLimitHasNoRoomAndThePlanSaysSo) {
  const v1::JobSpec spec = LargeBatches(10);
  UseGpu(0);
  const v1::PlannedBytes planned = PlanOf(spec).training();
  const uint64_t without = planned.peak() - planned.next_batch();
  for (const uint64_t spare : {uint64_t{0}, kBatchBytes - 1, kBatchBytes}) {
    auto meta = Session::Create({.device = *ParseDevice("meta"),
                                 .memory_limit_bytes = without + spare,
                                 .blob_dir = blob_dir_,
                                 .cuda = {.module_dirs = {GPUPOOL_STANDIN_DIR}},
                                 .plan_for = {DeviceType::kCuda, 0}});
    ASSERT_TRUE(meta.ok()) << meta.status();
    const auto plan = (*meta)->PlanTraining(spec, Digits());
    ASSERT_TRUE(plan.ok()) << plan.status();
    const bool fits = spare == kBatchBytes;
    EXPECT_EQ(plan->plan.training().next_batch(), fits ? kBatchBytes : 0);
    EXPECT_EQ(plan->plan.training().peak(), fits ? planned.peak() : without);
    ASSERT_EQ(plan->plan.warnings_size(), fits ? 0 : 1);
    if (fits) continue;
    EXPECT_THAT(plan->plan.warnings(0),
                HasSubstr(absl::StrCat("takes ", kBatchBytes, " bytes")));
    EXPECT_THAT(plan->plan.warnings(0),
                HasSubstr(absl::StrCat("leaves ", spare, " beside")));
  }
}

TEST_F(NextBatchTest, CountsForTheBudgetOfTheJob) {
  v1::JobSpec spec = LargeBatches(10);
  UseGpu(0);
  const v1::PlannedBytes planned = PlanOf(spec).training();
  const auto budget = spec.mutable_training()->mutable_recompute();
  budget->set_budget_bytes(planned.peak());
  EXPECT_EQ(PlanOf(spec).training().next_batch(), kBatchBytes);
  budget->set_budget_bytes(planned.peak() - 1);
  const v1::Plan plan = PlanOf(spec);
  EXPECT_EQ(plan.training().next_batch(), 0u);
  ASSERT_EQ(plan.warnings_size(), 1);
  EXPECT_THAT(plan.warnings(0), HasSubstr("recompute.budget_bytes"));
}

TEST_F(SessionGpuTest, StepsThatAreTimedHaveTheBitsOfThoseThatAreNot) {
  UseGpu(0);
  Outcome plain;
  Train(nullptr, plain);
  auto run = Start(Job());
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 3);
  ASSERT_TRUE((*run)->StartProfile(4).ok());
  StepTo(**run, 7);
  const auto profile = (*run)->TakeProfile();
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_GT(profile->bytes, 1000u);
  StepTo(**run, 10);
  const auto end = (*run)->SaveCheckpoint();
  ASSERT_TRUE(end.ok()) << end.status();
  EXPECT_EQ(FilesOf(*end), plain.files);
}

TEST_F(SessionGpuTest, AStepThatNobodyFinishesIsOverBeforeItsMemoryGoes) {
  UseGpu(0);
  auto run = Start(Job());
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->StartStep().ok());
  EXPECT_FALSE((*run)->StepIsDone());
  run->reset();
  session_->EmptyCache();
  EXPECT_EQ(session_->memory_stats().allocated_bytes(), 0u);
}

TEST_F(SessionGpuTest, BatchesInRegisteredMemoryAreNotCopiedOnTheHost) {
  UseGpu(0);
  Outcome trained;
  Train(nullptr, trained);
  auto model = Load(manifest_);
  ASSERT_NE(model, nullptr);
  std::vector<float> memory(1000);
  auto registration =
      session_->RegisterHostMemory(BytesOf(absl::MakeSpan(memory)));
  ASSERT_TRUE(registration.ok()) << registration.status();
  ASSERT_NE(*registration, nullptr);
  for (const uint32_t rows : {1u, 3u, 4u, 3u, 3u}) {
    EXPECT_EQ(AskIn(*model, rows, memory), Ask(*model, rows));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(
      session_->RegisterHostMemory(BytesOf(absl::MakeSpan(memory))).status()));
  registration->reset();
  model.reset();
  session_.reset();
  EXPECT_THAT(log_, HasSubstr("registrations 1, left 0;"));
  EXPECT_THAT(log_, HasSubstr("copies of registered memory 10,"));
}

TEST_F(SessionGpuTest, WithoutRegistrationBatchesAreServedByWayOfStaging) {
  ASSERT_EQ(setenv("GPUPOOL_STANDIN", "unpinnable", 1), 0);
  UseGpu(0);
  unsetenv("GPUPOOL_STANDIN");
  Outcome trained;
  Train(nullptr, trained);
  auto model = Load(manifest_);
  ASSERT_NE(model, nullptr);
  std::vector<float> memory(1000);
  EXPECT_TRUE(absl::IsResourceExhausted(
      session_->RegisterHostMemory(BytesOf(absl::MakeSpan(memory))).status()));
  EXPECT_EQ(AskIn(*model, 3, memory), Ask(*model, 3));
  model.reset();
  session_.reset();
  EXPECT_THAT(log_, HasSubstr("copies of registered memory 0,"));
}

TEST_F(SessionGpuTest, OnACpuDeviceThereIsNothingToRegister) {
  std::vector<float> memory(1000);
  const auto registration =
      session_->RegisterHostMemory(BytesOf(absl::MakeSpan(memory)));
  ASSERT_TRUE(registration.ok());
  EXPECT_EQ(*registration, nullptr);
}

TEST_F(SessionGpuTest, SaysWhatTheGpuIs) {
  UseGpu(0);
  const v1::Device info = session_->info();
  EXPECT_EQ(info.name(), "cuda:0");
  EXPECT_EQ(info.kind(), "cuda");
  EXPECT_EQ(info.description(), "Stand-in, portable kernels");
  EXPECT_EQ(info.limit_bytes(), uint64_t{3888} << 20);
  EXPECT_EQ(info.gpu().uuid(), "GPU-fake");
  EXPECT_EQ(info.gpu().total_bytes(), uint64_t{4} << 30);
  EXPECT_EQ(info.gpu().compute_capability(), "9.0");
  EXPECT_TRUE(absl::IsUnimplemented(session_->Read().status()));
}

TEST_F(SessionGpuTest, AGpuThatIsNotThereIsRefusedWithTheReason) {
  const auto index = OpenGpu(9);
  EXPECT_TRUE(absl::IsNotFound(index.status()));
  EXPECT_THAT(std::string(index.status().message()), HasSubstr("shows 3"));
  const auto module = Session::Create({.device = {DeviceType::kCuda, 0},
                                       .blob_dir = blob_dir_,
                                       .cuda = {.module_dirs = {"/nowhere"}}});
  EXPECT_TRUE(absl::IsNotFound(module.status()));
  EXPECT_THAT(std::string(module.status().message()), HasSubstr("/nowhere"));
  EXPECT_TRUE(absl::IsUnimplemented(
      Session::Create({.device = *ParseDevice("mps"), .blob_dir = blob_dir_})
          .status()));
}

class PlannerTest : public SessionGpuTest {
 protected:
  std::unique_ptr<Session> Planner(const std::string& module_dir) {
    auto meta = Session::Create({.device = *ParseDevice("meta"),
                                 .blob_dir = blob_dir_,
                                 .cuda = {.module_dirs = {module_dir}},
                                 .plan_for = {DeviceType::kCuda, 0}});
    EXPECT_TRUE(meta.ok()) << meta.status();
    return *std::move(meta);
  }
  // Returns a planner for a GPU that another process has described and that
  // this process cannot see.
  std::unique_ptr<Session> PlannerFor(const DeviceFacts& facts) {
    auto meta = Session::Create({.device = *ParseDevice("meta"),
                                 .blob_dir = blob_dir_,
                                 .cuda = {.module_dirs = {GPUPOOL_STANDIN_DIR}},
                                 .plan_for = {DeviceType::kCuda, 0},
                                 .planned_device = facts});
    EXPECT_TRUE(meta.ok()) << meta.status();
    return *std::move(meta);
  }
  v1::Plan PlanOn(Session& session) {
    auto plan = session.PlanTraining(Job(), Digits());
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? plan->plan : v1::Plan();
  }
};

TEST_F(PlannerTest, MetaPlansWithTheKernelsOfTheGpu) {
  const auto meta = Planner(GPUPOOL_STANDIN_DIR);
  const v1::Plan plan = PlanOn(*meta);
  EXPECT_TRUE(plan.warnings().empty());
  UseGpu(0);
  EXPECT_EQ(plan.training().peak(), PlanOn(*session_).training().peak());
  EXPECT_EQ(meta->memory_stats().allocations(), 0u);
}

TEST_F(PlannerTest, AFileIn16BitsNamesThePrecisionThatKeepsThem) {
  onnx::ModelProto model = onnx_import::ModelOfGraph(
      "(float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> "
      "{ y = MatMul(x, w) }");
  onnx_import::ToHalf({}, model);
  const std::string bytes = model.SerializeAsString();
  v1::ModelSpec spec;
  spec.mutable_onnx()->set_sha256(Sha256Hex(bytes));
  std::ofstream(blob_dir_ + "/" + spec.onnx().sha256(), std::ios::binary)
      << bytes;
  const auto warnings = [&spec](Session& session, v1::Precision precision) {
    const auto plan = session.PlanInference(
        spec, {.max_batch_size = 2, .precision = precision});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan.ok() ? plan->warnings() : v1::Plan().warnings();
  };
  const auto meta = Planner(GPUPOOL_STANDIN_DIR);
  EXPECT_THAT(warnings(*meta, v1::HIGHEST),
              ::testing::ElementsAre(HasSubstr("precision fp16 or bf16")));
  EXPECT_TRUE(warnings(*meta, v1::FP16).empty());
  EXPECT_TRUE(warnings(*Open("meta"), v1::HIGHEST).empty());
}

// Returns the lines of the file in which the stand-in records opened contexts.
class ContextsTest : public PlannerTest {
 protected:
  ContextsTest() { ::setenv("GPUPOOL_STANDIN_OPENED", opened_.c_str(), 1); }
  ~ContextsTest() override {
    ::unsetenv("GPUPOOL_STANDIN_OPENED");
    ::unsetenv("CUDA_VISIBLE_DEVICES");
  }
  ContextsTest(const ContextsTest&) = delete;
  ContextsTest& operator=(const ContextsTest&) = delete;

  int64_t Contexts() const {
    const std::string lines = ReadFile(opened_);
    return std::count(lines.begin(), lines.end(), '\n');
  }

  const std::string opened_ = blob_dir_ + "/opened";
};

TEST_F(ContextsTest, PlansAreThoseOfTheOpenGpuAndOpenNone) {
  const auto gpus = ListCudaDevices({.module_dirs = {GPUPOOL_STANDIN_DIR}});
  ASSERT_TRUE(gpus.ok()) << gpus.status();
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  std::vector<v1::Plan> planned;
  for (const DeviceFacts& facts : *gpus) {
    planned.push_back(PlanOn(*PlannerFor(facts)));
    EXPECT_TRUE(planned.back().warnings().empty());
  }
  EXPECT_EQ(Contexts(), 0);
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  for (size_t i = 0; i < planned.size(); ++i) {
    UseGpu(static_cast<int>(i));
    const v1::Plan own = PlanOn(*session_);
    EXPECT_EQ(planned[i].training().SerializeAsString(),
              own.training().SerializeAsString());
    EXPECT_EQ(planned[i].inference().SerializeAsString(),
              own.inference().SerializeAsString());
    EXPECT_EQ(Contexts(), static_cast<int64_t>(i) + 1);
  }
  // The two devices have different kernels, so the planner must distinguish
  // them.
  EXPECT_NE(planned[0].training().peak(), planned[1].training().peak());
}

TEST_F(ContextsTest, ADriverThatIsAskedForTheFactsOpensNoneEither) {
  EXPECT_TRUE(PlanOn(*Planner(GPUPOOL_STANDIN_DIR)).warnings().empty());
  EXPECT_EQ(Contexts(), 0);
}

TEST_F(ContextsTest, ALibraryThatCannotPlanIsSaid) {
  ::setenv("GPUPOOL_STANDIN", "unplannable", 1);
  const v1::Plan plan = PlanOn(*Planner(GPUPOOL_STANDIN_DIR));
  ::unsetenv("GPUPOOL_STANDIN");
  ASSERT_EQ(plan.warnings_size(), 1);
  EXPECT_THAT(plan.warnings(0), HasSubstr("kernels of a CPU"));
  EXPECT_THAT(plan.warnings(0), HasSubstr("9.7.0 cannot plan"));
  EXPECT_EQ(Contexts(), 0);
}

TEST_F(SessionGpuTest, WhatIsRecordedIsCounted) {
  UseGpu(0);
  Outcome outcome;
  TrainAndServe(outcome);
  const v1::MemoryStats stats = session_->AllMemoryStats();
  const auto& named = stats.by_pytorch_name();
  EXPECT_EQ(named.at("recordings.limit_bytes"), uint64_t{16} << 20);
  EXPECT_EQ(named.at("recordings.count"), 0u);  // the model was unloaded
  EXPECT_EQ(named.at("recordings.bytes"), 0u);
  EXPECT_EQ(named.at("recordings.refused"), 0u);
  auto run = Start(Job());
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 3);
  const v1::MemoryStats running = session_->AllMemoryStats();
  const auto& now = running.by_pytorch_name();
  EXPECT_GT(now.at("recordings.count"), 0u);
  EXPECT_GT(now.at("recordings.bytes"), 0u);
  EXPECT_LE(now.at("recordings.bytes"), now.at("recordings.limit_bytes"));
}

TEST_F(PlannerTest, WithoutTheGpuPlansAreTheCpusAndSaySo) {
  const auto meta = Planner("/nowhere");
  const v1::Plan plan = PlanOn(*meta);
  ASSERT_EQ(plan.warnings_size(), 1);
  EXPECT_THAT(plan.warnings(0), HasSubstr("kernels of a CPU"));
  EXPECT_THAT(plan.warnings(0), HasSubstr("/nowhere"));
  EXPECT_EQ(plan.training().peak(), PlanOn(*session_).training().peak());
}

}  // namespace
}  // namespace gpupool::engine
