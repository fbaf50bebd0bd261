// A deterministic stand-in for the engine. A "model" doubles its input. A
// training's loss is 1 / step, and its learning rate is half of that. The name
// of a job decides what happens:
//   "nan-at-N"     Step N fails like a loss that is not finite
//   "broken-at-N"  Step N fails like a broken device
//   "sticky-at-N"  Step N fails like a device with a lost context
//   "suspect-at-N" Step N fails like an uncorrectable memory error
//   "hang-at-N"    Step N never ends
//   "abort-at-N"   Step N ends the process by SIGABRT
//   "full-at-N"    the disk is full for the copy of step N
//   "no-room"      the host has no memory for copies of checkpoints
//   "unknown"      StartTraining refuses
//   "lonely"       StartTraining waits for ranks that do not come
//   "after PATH"   PlanTraining waits until the file PATH exists
//   "no-text"      PlanTraining refuses with bytes that are no UTF-8
// Planning the job "abort-plan" and loading the model "abort/1" end the process
// by SIGABRT. Planning "late-abort-plan" does so a while after its connections
// have ended, like a process of much memory on a busy machine.
//
// Evaluations of a training improve up to step 25. Early stopping ends it when
// step 30 or a later one was evaluated. Its checkpoints are the step number,
// written as a digest, so that a resumed job shows from which step it resumes.
#pragma once

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "engine/base/full_disk.h"
#include "server/ipc/work_page.h"
#include "server/worker/engine.h"
#include "tests/wait_until.h"

namespace gpupool::server::testing_engine {

inline std::string DigestOfStep(uint64_t step) {
  std::string digits = absl::StrCat(step);
  return std::string(64 - digits.size(), '0') + digits;
}

// Waits for the file of a job called "after PATH".
inline void WaitForFile(absl::string_view name) {
  if (!absl::ConsumePrefix(&name, "after ")) return;
  while (!std::filesystem::exists(std::string(name))) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

// Shuts all sockets of the process down, and waits a while.
inline void EndConnections() {
  for (int fd = 3; fd < 256; ++fd) ::shutdown(fd, SHUT_RDWR);
  LetOthersRun(absl::Milliseconds(300));
}

// The state that the ranks of a group share.
struct FakeGroup {
  std::atomic<uint64_t> stop_after{UINT64_MAX};  // the last step
};

inline absl::Status WaitUntilAborted(engine::AbortSwitch& abort) {
  absl::Notification aborted;
  const uint64_t listener =
      abort.Add([&](absl::string_view) { aborted.Notify(); });
  aborted.WaitForNotification();
  abort.Remove(listener);
  return abort.status();
}

// The memory that was registered with an engine.
class FakeRegistrations {
 public:
  absl::StatusOr<std::shared_ptr<void>> Add(absl::Span<std::byte> memory) {
    ++asked;
    if (!error.ok()) return error;
    ++live;
    // The memory must still exist when its registration ends.
    return std::shared_ptr<void>(memory.data(), [this, memory](void*) {
      std::memset(&memory.back(), 0, 1);
      --live;
    });
  }

  std::atomic<int> asked = 0;
  std::atomic<int> live = 0;
  absl::Status error;  // status of every further registration
};

struct FakeEngineSettings {
  std::chrono::microseconds step_time{0};
  std::chrono::microseconds infer_time{0};
  uint64_t limit_bytes = 0;
  uint32_t threads = 1;
  absl::Status readings_error = absl::UnimplementedError("no GPU");
  absl::Status bench_error;  // of measurements of the device
  // If set, plans wait until it is notified.
  absl::Notification* plan_gate = nullptr;
  // If set, the inspection of the layout with features_array "gated" waits for
  // it.
  absl::Notification* inspect_gate = nullptr;
  std::shared_ptr<FakeGroup> group = std::make_shared<FakeGroup>();
  FakeRegistrations* registered = nullptr;  // null: as on a CPU device
  uint64_t checkpoint_bytes = 0;
  // If set, writes of copies wait for it.
  absl::Notification* write_gate = nullptr;
  // If set, steps that the device makes by itself wait for it.
  absl::Notification* step_gate = nullptr;
  std::atomic<int>* steps_started = nullptr;
};

class FakeTraining : public engine::Training {
 public:
  FakeTraining(const worker::v1::StartJob& request,
               const FakeEngineSettings& settings)
      : request_(request), settings_(settings) {
    if (!absl::SimpleAtoi(request.resume_manifest_sha256(), &step_)) step_ = 0;
  }
  absl::Status StartStep() override {
    ++step_;
    if (settings_.steps_started != nullptr) ++*settings_.steps_started;
    return absl::OkStatus();
  }
  bool StepIsDone() override {
    return settings_.step_gate == nullptr ||
           settings_.step_gate->HasBeenNotified();
  }
  absl::Status FinishStep() override {
    std::this_thread::sleep_for(settings_.step_time);
    if (request_.spec().name() == absl::StrCat("nan-at-", step_)) {
      return absl::InvalidArgumentError(
          absl::StrCat("the loss of step ", step_, " is not finite"));
    }
    if (request_.spec().name() == absl::StrCat("broken-at-", step_)) {
      return absl::InternalError("the device is broken");
    }
    if (request_.spec().name() == absl::StrCat("abort-at-", step_)) {
      std::abort();
    }
    if (request_.spec().name() == absl::StrCat("sticky-at-", step_)) {
      return absl::UnavailableError("illegal address");
    }
    if (request_.spec().name() == absl::StrCat("suspect-at-", step_)) {
      return absl::DataLossError("uncorrectable memory error");
    }
    while (request_.spec().name() == absl::StrCat("hang-at-", step_)) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
    return absl::OkStatus();
  }
  uint64_t step() const override { return step_; }
  uint64_t total_steps() const override {
    return request_.spec().training().steps();
  }
  uint32_t rows_per_step() const override { return 4; }
  uint64_t steps_per_epoch() const override { return 10; }
  absl::StatusOr<double> Loss() override {
    return 1.0 / static_cast<double>(step_);
  }
  std::optional<double> learning_rate() const override {
    return 0.5 / static_cast<double>(step_);
  }
  double input_wait() const override { return 0.25; }
  double loss_scale() const override { return 1024; }
  uint64_t skipped_steps() const override { return step_ / 2; }
  absl::StatusOr<v1::Checkpoint> SaveCheckpoint() override {
    return CheckpointOf(step_);
  }
  absl::StatusOr<engine::CheckpointWrite> CopyCheckpoint() override {
    if (request_.spec().name() == "no-room") {
      return absl::ResourceExhaustedError("the host has no room");
    }
    const bool full = request_.spec().name() == absl::StrCat("full-at-", step_);
    return engine::CheckpointWrite(
        [full, step = step_,
         gate = settings_.write_gate]() -> absl::StatusOr<v1::Checkpoint> {
          if (gate != nullptr) gate->WaitForNotification();
          if (full) return engine::FullDiskError("the disk is full");
          return CheckpointOf(step);
        });
  }
  uint64_t checkpoint_bytes() const override {
    return settings_.checkpoint_bytes;
  }
  absl::StatusOr<v1::Evaluation> Evaluate() override {
    v1::Evaluation evaluation;
    evaluation.set_step(step_);
    evaluation.set_accuracy(0.5);
    evaluated_step_ = step_;
    return evaluation;
  }
  uint64_t evaluated_step() const override { return evaluated_step_; }
  // Evaluations before step 25 improve each time.
  bool newest_evaluation_is_best() const override {
    return request_.spec().training().keep_best_checkpoints() > 0 &&
           evaluated_step_ < 25;
  }
  bool stopped_early() const override {
    return request_.spec().training().has_early_stopping() &&
           evaluated_step_ >= 30;
  }
  bool has_held_out_rows() const override {
    return request_.spec().data().has_held_out();
  }
  absl::Status StartProfile(uint32_t steps) override {
    if (steps > 50) return absl::InvalidArgumentError("at most 50 steps");
    profiled_from_ = step_;
    return absl::OkStatus();
  }
  // Returns a digest with the number of steps made since StartProfile.
  absl::StatusOr<engine::StoredProfile> TakeProfile() override {
    return engine::StoredProfile{DigestOfStep(step_ - profiled_from_), 12};
  }
  v1::MemoryUse memory() const override {
    v1::MemoryUse use;
    use.set_measured_peak_bytes(1234);
    return use;
  }
  void RequestStop() override { settings_.group->stop_after = step_ + 1; }
  bool stop_agreed() const override {
    return step_ >= settings_.group->stop_after;
  }

 private:
  static v1::Checkpoint CheckpointOf(uint64_t step) {
    v1::Checkpoint checkpoint;
    checkpoint.set_step(step);
    checkpoint.set_manifest_sha256(DigestOfStep(step));
    return checkpoint;
  }

  const worker::v1::StartJob request_;
  const FakeEngineSettings settings_;
  uint64_t step_ = 0;
  uint64_t evaluated_step_ = 0;
  uint64_t profiled_from_ = 0;
};

// Takes any number of FLOAT32 rows of two numbers. A profile of at most eight
// rows is a blob with the number of its requests as a digest.
class FakeModel : public engine::ServedModel {
 public:
  explicit FakeModel(const FakeEngineSettings& settings) : settings_(settings) {
    specs_[0].set_data_type(v1::FLOAT32);
    specs_[0].add_shape(-1);
    specs_[0].add_shape(2);
  }
  const std::vector<v1::TensorSpec>& inputs() const override { return specs_; }
  const std::vector<v1::TensorSpec>& outputs() const override { return specs_; }
  uint64_t measured_bytes() const override { return 99; }
  const std::vector<std::string>& dimensions() const override {
    return dimensions_;
  }
  absl::Status Infer(const engine::InferenceBatch& batch,
                     engine::InferenceAnswer*) override {
    std::this_thread::sleep_for(settings_.infer_time);
    for (uint32_t i = 0; i < 2 * batch.rows; ++i) {
      float value = 0;
      std::memcpy(&value, batch.inputs[0].data() + 4 * i, 4);
      value *= 2;
      std::memcpy(batch.outputs[0].data() + 4 * i, &value, 4);
    }
    return absl::OkStatus();
  }
  absl::Status StartProfile(uint32_t, uint32_t rows) override {
    if (rows > 8) return absl::InvalidArgumentError("too many rows");
    profiled_ = 0;
    return absl::OkStatus();
  }
  absl::Status ProfileRequest() override {
    ++profiled_;
    return absl::OkStatus();
  }
  absl::StatusOr<engine::StoredProfile> TakeProfile() override {
    return engine::StoredProfile{DigestOfStep(profiled_), 4};
  }

 private:
  const FakeEngineSettings settings_;
  std::vector<v1::TensorSpec> specs_{1};
  std::vector<std::string> dimensions_;
  uint64_t profiled_ = 0;
};

class FakeEngine : public Engine {
 public:
  explicit FakeEngine(FakeEngineSettings settings = {},
                      std::string device = "cpu:0")
      : settings_(settings), device_(std::move(device)) {}

  absl::StatusOr<worker::v1::PlanReply> PlanTraining(
      const worker::v1::PlanTraining& request) override {
    if (settings_.plan_gate != nullptr) {
      settings_.plan_gate->WaitForNotification();
    }
    WaitForFile(request.spec().name());
    if (request.spec().name() == "late-abort-plan") EndConnections();
    if (absl::EndsWith(request.spec().name(), "abort-plan")) std::abort();
    if (request.spec().name() == "no-text") {
      return absl::InvalidArgumentError("node \xff: unknown");
    }
    worker::v1::PlanReply reply;
    reply.set_total_steps(request.spec().training().steps());
    return reply;
  }
  absl::StatusOr<worker::v1::PlanReply> PlanInference(
      const worker::v1::PlanInference&) override {
    return absl::InvalidArgumentError("layer 3 \"dense\": no such layer");
  }
  absl::StatusOr<worker::v1::DatasetReply> InspectDataset(
      const worker::v1::InspectDataset& request) override {
    if (request.layout().features_array() == "gated") {
      settings_.inspect_gate->WaitForNotification();
    }
    worker::v1::DatasetReply reply;
    reply.set_rows(7);
    return reply;
  }
  absl::StatusOr<worker::v1::ImportReply> ImportModel(
      const worker::v1::ImportModel& request) override {
    worker::v1::ImportReply reply;
    reply.set_manifest_sha256(request.weights_sha256());
    return reply;
  }
  absl::StatusOr<worker::v1::ExportReply> ExportModel(
      const worker::v1::ExportModel& request) override {
    worker::v1::ExportReply reply;
    reply.set_sha256(request.manifest_sha256());
    return reply;
  }
  absl::StatusOr<std::unique_ptr<engine::Training>> StartTraining(
      const worker::v1::StartJob& request,
      std::shared_ptr<engine::AbortSwitch> abort) override {
    if (request.spec().name() == "unknown") {
      return absl::NotFoundError("no such blob");
    }
    if (request.spec().name() == "lonely") {
      return WaitUntilAborted(*abort);
    }
    return std::make_unique<FakeTraining>(request, settings_);
  }
  absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion& request) override {
    if (request.name() == "missing/1") {
      return absl::NotFoundError("no such checkpoint");
    }
    if (request.name() == "abort/1") std::abort();
    return std::make_unique<FakeModel>(settings_);
  }
  absl::StatusOr<std::shared_ptr<void>> RegisterMemory(
      absl::Span<std::byte> memory) override {
    if (settings_.registered == nullptr) return nullptr;
    return settings_.registered->Add(memory);
  }
  // Makes three measurements: a copy of so many bytes as its index.
  absl::StatusOr<bool> MeasureDevice(uint32_t index,
                                     v1::DeviceBench& bench) override {
    if (!settings_.bench_error.ok()) return settings_.bench_error;
    bench.set_device(device_);
    bench.add_copies()->set_bytes(index);
    return index < 2;
  }
  bool IsJobsOwnFault(const absl::Status& status) const override {
    return absl::IsInvalidArgument(status) || absl::IsNotFound(status);
  }
  v1::JobError ToJobError(const absl::Status& status,
                          uint64_t step) const override {
    v1::JobError error;
    error.set_code(static_cast<int32_t>(status.code()));
    error.set_message(std::string(status.message()));
    error.set_step(step);
    return error;
  }
  int ExitCodeFor(const absl::Status& status) const override {
    if (absl::IsUnavailable(status)) return kExitDeviceFault;
    return absl::IsDataLoss(status) ? kExitDeviceSuspect : 0;
  }
  v1::Device info() const override {
    v1::Device device;
    device.set_name(device_);
    device.set_kind("cpu");
    device.set_limit_bytes(settings_.limit_bytes);
    device.set_threads(settings_.threads);
    return device;
  }
  v1::MemoryStats memory_stats() const override {
    v1::MemoryStats stats;
    stats.set_device(device_);
    return stats;
  }
  // Returns readings of a GPU that gets warmer each time.
  absl::StatusOr<v1::GpuReadings> Readings() const override {
    const int asked = ++readings_asked;
    if (!settings_.readings_error.ok()) return settings_.readings_error;
    v1::GpuReadings readings;
    readings.set_temperature_celsius(40 + asked);
    return readings;
  }
  std::optional<absl::StatusOr<worker::v1::FromWorker>> AnswerVerb(
      const worker::v1::ToWorker& request) override {
    worker::v1::FromWorker reply;
    *reply.mutable_memory()->mutable_stats() = memory_stats();
    switch (request.message_case()) {
      case worker::v1::ToWorker::kGetMemory:
        (*reply.mutable_memory()
              ->mutable_stats()
              ->mutable_by_pytorch_name())["num_ooms"] = 3;
        reply.mutable_memory()->set_summary("all of it");
        return reply;
      case worker::v1::ToWorker::kEmptyCache:
        reply.mutable_empty_cache()->set_freed_bytes(4096);
        return reply;
      case worker::v1::ToWorker::kResetPeak:
        return reply;
      case worker::v1::ToWorker::kSetMemoryFraction:
        if (request.set_memory_fraction().fraction() >= 0.5) return reply;
        return absl::FailedPreconditionError("more is held");
      case worker::v1::ToWorker::kRecordMemoryHistory:
        history_entries = request.record_memory_history().max_entries();
        return reply;
      case worker::v1::ToWorker::kDumpMemory:
        reply.mutable_dump_memory()->set_sha256(DigestOfStep(history_entries));
        return reply;
      default:
        return std::nullopt;
    }
  }

  mutable std::atomic<int> readings_asked = 0;
  std::atomic<uint64_t> history_entries = 0;

 private:
  const FakeEngineSettings settings_;
  const std::string device_;
};

}  // namespace gpupool::server::testing_engine
