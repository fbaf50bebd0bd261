// The worker that users get: the real gpupool-worker with the real engine and
// the digits data, driven by a pool like the daemon's.
#include "server/worker/session_engine.h"

#include <google/protobuf/text_format.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "engine/base/sha256.h"
#include "tests/server/pool/pool_fixture.h"
#include "tests/test_paths.h"

namespace gpupool::server {
namespace {

using testing_pool::Eventually;
using worker::v1::FromWorker;
using worker::v1::JobEnded;
using worker::v1::Report;
using worker::v1::ToWorker;

constexpr char kDigits[] = R"pb(
  name: "digits"
  model {
    input_shape: [ 1, 8, 8 ]
    layers { conv2d { filters: 8 kernel: 3 padding: 1 } }
    layers { batch_norm {} }
    layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { flatten {} }
    layers { dropout { probability: 0.25 } }
    layers { dense { units: 10 } }
  }
  data {
    dataset: "digits"
    held_out { every: 5 }
    scaling { multiply: 0.0625 }
  }
  training {
    cross_entropy {}
    adam {}
    batch_size: 32
    steps: 400
    seed: 1
    checkpoint_every_steps: 50
  }
)pb";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

class SessionEngineTest : public testing_pool::PoolFixture {
 protected:
  void SetUp() override {
    PoolFixture::SetUp();
    const std::string bytes =
        ReadFile(SourcePath("examples/data/digits.csv.gz"));
    const std::string digest = engine::Sha256Hex(bytes);
    std::filesystem::create_directories(state_dir_ + "/blobs");
    std::ofstream(state_dir_ + "/blobs/" + digest, std::ios::binary) << bytes;
    v1::DatasetFile* file = dataset_.add_files();
    file->set_role(v1::DatasetFile::TABLE);
    file->set_file_name("digits.csv.gz");
    file->set_total_bytes(bytes.size());
    file->set_sha256(digest);
    dataset_.mutable_layout()->set_format(v1::CSV);
    dataset_.set_name("digits");
    dataset_.set_rows(1797);
    dataset_.add_feature_shape(64);
    dataset_.set_classes(10);
    ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(kDigits, &spec_));
  }
  PoolOptions RealOptions() const {
    PoolOptions options = Options();
    options.worker_binary = BinaryPath("gpupool-worker");
    options.devices[0].limit_bytes = uint64_t{512} << 20;
    options.ring.slot_bytes = 1 << 20;
    return options;
  }
  absl::Status Train(uint64_t id, uint32_t attempt,
                     const std::string& resume = "") {
    ToWorker request;
    worker::v1::StartJob* job = request.mutable_start_job();
    job->set_job_id(id);
    job->set_attempt(attempt);
    *job->mutable_spec() = spec_;
    *job->mutable_dataset() = dataset_;
    *job->mutable_validation() = validation_;
    job->set_resume_manifest_sha256(resume);
    job->set_limit_bytes(limit_bytes_);
    return Ask("cpu:0", request).status();
  }
  // Returns the newest checkpoint that was reported for the job.
  v1::Checkpoint LastCheckpoint(uint64_t job) {
    v1::Checkpoint last;
    for (const Report& report : observer_->reports()) {
      if (report.job_id() == job && report.has_checkpoint()) {
        last = report.checkpoint();
      }
    }
    return last;
  }
  JobEnded EndOf(uint64_t job) {
    EXPECT_TRUE(WaitEnded(job));
    JobEnded last;
    for (const Report& report : observer_->reports()) {
      if (report.job_id() == job && report.has_ended()) last = report.ended();
    }
    return last;
  }
  // Returns the digests of the checkpoint's files by role.
  std::map<std::string, std::string> FilesOf(const v1::Checkpoint& checkpoint) {
    const auto manifest = nlohmann::json::parse(
        ReadFile(state_dir_ + "/blobs/" + checkpoint.manifest_sha256()));
    std::map<std::string, std::string> files;
    for (const auto& file : manifest["files"]) {
      files[file["role"]] = file["sha256"];
    }
    return files;
  }

  v1::Dataset dataset_;
  v1::Dataset validation_;  // default: none
  v1::JobSpec spec_;
  uint64_t limit_bytes_ = 0;  // limit of jobs; 0: the device's
};

TEST_F(SessionEngineTest, MetaWorkerInspectsDataAndPlans) {
  PoolOptions options = RealOptions();
  options.devices[0].name = "meta";
  StartReadyPool(options);
  ToWorker request;
  *request.mutable_inspect_dataset()->mutable_layout() = dataset_.layout();
  *request.mutable_inspect_dataset()->mutable_files() = dataset_.files();
  const auto facts = Ask("meta", request);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->dataset().rows(), 1797u);
  EXPECT_EQ(facts->dataset().classes(), 10u);
  *request.mutable_plan_training()->mutable_spec() = spec_;
  *request.mutable_plan_training()->mutable_dataset() = dataset_;
  const auto plan = Ask("meta", request);
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->plan().total_steps(), 400u);
  EXPECT_EQ(plan->plan().plan().layers_size(), 7);
  request.mutable_plan_training()
      ->mutable_spec()
      ->mutable_model()
      ->mutable_layers(0)
      ->mutable_conv2d()
      ->set_kernel(0, 99);
  EXPECT_EQ(Ask("meta", request).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// This happens after a restart with a different number of threads.
TEST_F(SessionEngineTest, APlanThatHasBecomeTooSmallDoesNotFailTheWork) {
  StartReadyPool(RealOptions());
  spec_.mutable_training()->set_steps(10);
  limit_bytes_ = 1 << 10;
  ASSERT_TRUE(Train(7, 1).ok());
  const JobEnded end = EndOf(7);
  ASSERT_EQ(end.outcome(), JobEnded::SUCCEEDED) << end.DebugString();
  EXPECT_EQ(end.memory().measured_peak_bytes(),
            end.memory().planned_peak_bytes());
  ToWorker request;
  worker::v1::LoadVersion& load = *request.mutable_load_version();
  load.set_version_id(5);
  load.set_name("digits/1");
  load.set_manifest_sha256(LastCheckpoint(7).manifest_sha256());
  load.set_max_batch_size(4);
  load.set_limit_bytes(1 << 10);
  const auto version = Ask("cpu:0", request);
  EXPECT_TRUE(version.ok()) << version.status();
}

TEST_F(SessionEngineTest, EvaluatesTheValidationSetWithItsMetrics) {
  StartReadyPool(RealOptions());
  spec_.mutable_data()->clear_held_out();
  spec_.mutable_data()->set_validation("digits");
  spec_.mutable_training()->set_steps(10);
  spec_.mutable_training()->add_metrics("f1");
  spec_.mutable_training()->add_metrics("confusion");
  validation_ = dataset_;
  limit_bytes_ = 1 << 10;  // planned again, which needs both datasets
  ASSERT_TRUE(Train(7, 1).ok());
  const JobEnded end = EndOf(7);
  ASSERT_EQ(end.outcome(), JobEnded::SUCCEEDED) << end.DebugString();
  v1::Evaluation evaluation;
  for (const Report& report : observer_->reports()) {
    if (report.has_evaluation()) evaluation = report.evaluation();
  }
  EXPECT_EQ(evaluation.rows(), 1797u);
  EXPECT_GT(evaluation.metrics().at("f1"), 0);
  EXPECT_EQ(evaluation.confusion().counts_size(), 100);
}

TEST_F(SessionEngineTest, PlansRefuseAValidationSetOfAnotherForm) {
  PoolOptions options = RealOptions();
  options.devices[0].name = "meta";
  StartReadyPool(options);
  ToWorker request;
  worker::v1::PlanTraining& plan = *request.mutable_plan_training();
  *plan.mutable_spec() = spec_;
  plan.mutable_spec()->mutable_data()->clear_held_out();
  plan.mutable_spec()->mutable_data()->set_validation("other");
  *plan.mutable_dataset() = dataset_;
  *plan.mutable_validation() = dataset_;
  EXPECT_TRUE(Ask("meta", request).ok());
  plan.mutable_validation()->set_name("other");
  plan.mutable_validation()->set_feature_shape(0, 63);
  const auto refused = Ask("meta", request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(refused.message().find("\"other\" have shape [63], but those of "
                                   "\"digits\" have shape [64]"),
            std::string::npos)
      << refused;
}

TEST_F(SessionEngineTest, TrainsAndServesWhatItTrained) {
  StartReadyPool(RealOptions());
  ASSERT_TRUE(Train(7, 1).ok());
  const JobEnded end = EndOf(7);
  ASSERT_EQ(end.outcome(), JobEnded::SUCCEEDED) << end.DebugString();
  double accuracy = 0;
  for (const Report& report : observer_->reports()) {
    if (report.has_evaluation()) accuracy = report.evaluation().accuracy();
  }
  EXPECT_GT(accuracy, 0.9);
  EXPECT_GT(end.memory().measured_peak_bytes(), 0u);
  EXPECT_EQ(end.memory().measured_peak_bytes(),
            end.memory().planned_peak_bytes());

  ToWorker request;
  request.mutable_get_memory();
  EXPECT_EQ(Ask("cpu:0", request)->memory().stats().allocated_bytes(), 0u);
  request.mutable_load_version()->set_version_id(5);
  request.mutable_load_version()->set_name("digits/1");
  request.mutable_load_version()->set_manifest_sha256(
      LastCheckpoint(7).manifest_sha256());
  request.mutable_load_version()->set_max_batch_size(4);
  const auto version = Ask("cpu:0", request);
  ASSERT_TRUE(version.ok()) << version.status();
  EXPECT_EQ(version->version().outputs(0).shape(1), 10);

  const auto ring = pool_->ring("cpu:0");
  Slot slot = *ring->Acquire();
  testing_pool::FillRow(&slot, 5);
  SlotHeader& header = slot.header();
  header.inputs[0].dims[1] = 64;
  header.inputs[0].bytes = 256;
  header.outputs[0].dims[1] = 10;
  header.outputs[0].bytes = 40;
  header.outputs[0].offset = 256;
  for (int i = 0; i < 64; ++i) {
    const float value = static_cast<float>(i % 17);
    std::memcpy(slot.payload().data() + 4 * i, &value, 4);
  }
  std::promise<absl::Status> answer;
  ring->Submit(std::move(slot), [&](absl::Status status, Slot slot) {
    for (int i = 0; status.ok() && i < 10; ++i) {
      float value = NAN;
      std::memcpy(&value, slot.output(0).data() + 4 * i, 4);
      EXPECT_TRUE(std::isfinite(value));
    }
    answer.set_value(status);
  });
  const absl::Status status = answer.get_future().get();
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(SessionEngineTest, KilledWorkersJobEndsAsTheUndisturbedOne) {
  StartReadyPool(RealOptions());
  ASSERT_TRUE(Train(7, 1).ok());
  ASSERT_EQ(EndOf(7).outcome(), JobEnded::SUCCEEDED);
  const auto undisturbed = FilesOf(LastCheckpoint(7));
  ASSERT_EQ(undisturbed.count("weights"), 1u);

  ASSERT_TRUE(Train(8, 1).ok());
  ASSERT_TRUE(Eventually([&] { return LastCheckpoint(8).step() >= 100; }));
  ASSERT_EQ(::kill(pid("cpu:0"), SIGKILL), 0);
  ASSERT_TRUE(WaitReady("cpu:0", 2));
  const v1::Checkpoint resume = LastCheckpoint(8);
  ASSERT_LT(resume.step(), 400u) << "the job was faster than the kill";
  ASSERT_TRUE(Train(8, 2, resume.manifest_sha256()).ok());
  ASSERT_EQ(EndOf(8).outcome(), JobEnded::SUCCEEDED);
  EXPECT_EQ(LastCheckpoint(8).step(), 400u);
  EXPECT_EQ(FilesOf(LastCheckpoint(8)), undisturbed);
}

TEST_F(SessionEngineTest, JobGoesOnWhileItsDaemonIsAway) {
  StartReadyPool(RealOptions());
  ASSERT_TRUE(Train(7, 1).ok());
  ASSERT_TRUE(WaitProgress(7));
  const pid_t worker = pid("cpu:0");
  pool_->Shutdown(WorkerPool::ShutdownMode::kDetach);
  StartReadyPool(RealOptions());
  EXPECT_EQ(pid("cpu:0"), worker);
  EXPECT_EQ(observer_->ready("cpu:0")[0].running(0).job_id(), 7u);
  EXPECT_EQ(EndOf(7).outcome(), JobEnded::SUCCEEDED);
  EXPECT_EQ(pool_->status("cpu:0").restarts, 0u);
}

TEST_F(SessionEngineTest, LossThatIsNotFiniteFailsTheJobWithAHint) {
  spec_.mutable_training()->mutable_sgd()->set_learning_rate(1e30);
  StartReadyPool(RealOptions());
  ASSERT_TRUE(Train(7, 1).ok());
  const JobEnded end = EndOf(7);
  EXPECT_EQ(end.outcome(), JobEnded::FAILED);
  EXPECT_GT(end.error().step(), 0u);
  EXPECT_NE(end.error().hint(), "");
}

TEST_F(SessionEngineTest, JobThatDoesNotFitIsNotItsOwnFaultAndLeavesNothing) {
  PoolOptions options = RealOptions();
  options.devices[0].limit_bytes = 4096;
  StartReadyPool(options);
  ASSERT_TRUE(Train(7, 1).ok());
  const JobEnded end = EndOf(7);
  EXPECT_EQ(end.outcome(), JobEnded::INTERRUPTED);
  EXPECT_EQ(end.error().code(),
            static_cast<int>(absl::StatusCode::kResourceExhausted));
  ToWorker request;
  request.mutable_get_memory();
  EXPECT_EQ(Ask("cpu:0", request)->memory().stats().allocated_bytes(), 0u);
}

}  // namespace
}  // namespace gpupool::server
