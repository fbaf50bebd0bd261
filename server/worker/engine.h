// The worker's interface to the engine. The loop, the turnstile and the job
// runner use only this, so that tests can put a deterministic engine behind it.
// SessionEngine is the real one.
//
// Trainings and models are the engine's own interfaces; only the watch wraps
// them (watched_engine.h).
//
// Thread-safety: as engine::Session. Everything is called on the compute
// thread, except Engine's methods marked "Any thread".
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/collective/abort_switch.h"
#include "engine/served_model.h"
#include "engine/train/training.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {

class Engine {
 public:
  virtual ~Engine() = default;

  virtual absl::StatusOr<worker::v1::PlanReply> PlanTraining(
      const worker::v1::PlanTraining& request) = 0;
  virtual absl::StatusOr<worker::v1::PlanReply> PlanInference(
      const worker::v1::PlanInference& request) = 0;
  virtual absl::StatusOr<worker::v1::ImportReply> ImportModel(
      const worker::v1::ImportModel& request) = 0;
  virtual absl::StatusOr<worker::v1::ExportReply> ExportModel(
      const worker::v1::ExportModel& request) = 0;
  // Starts a training. `abort` ends a training that waits, or will wait, for
  // the other ranks of its group; the training's call then fails with Aborted.
  // Null: nobody aborts it. A rank of a group returns when all ranks have come.
  virtual absl::StatusOr<std::unique_ptr<engine::Training>> StartTraining(
      const worker::v1::StartJob& request,
      std::shared_ptr<engine::AbortSwitch> abort) = 0;
  virtual absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion& request) = 0;
  // Lets the device itself copy tensors of batches from and to `memory`, as
  // long as the result is held. The result must be destroyed on the compute
  // thread, before the memory and the engine. Null when the device gains
  // nothing by it. After an error such batches are served as others are.
  virtual absl::StatusOr<std::shared_ptr<void>> RegisterMemory(
      absl::Span<std::byte> memory) = 0;

  // Makes measurement `index` of the device, from 0, and adds it to `bench`.
  // Returns whether more follow.
  virtual absl::StatusOr<bool> MeasureDevice(uint32_t index,
                                             v1::DeviceBench& bench) = 0;

  // Any thread. Returns whether another try of the same job cannot help, and
  // the error in words.
  virtual bool IsJobsOwnFault(const absl::Status& status) const = 0;
  virtual v1::JobError ToJobError(const absl::Status& status,
                                  uint64_t step) const = 0;
  // Any thread. Returns the exit code with which this process must end
  // (server/ipc/work_page.h) for an error that only a new process can recover
  // from; 0 for other errors.
  virtual int ExitCodeFor(const absl::Status& /*status*/) const { return 0; }
  // Any thread. Returns the exit code once such an error has happened, else 0.
  // After it the engine must not be used, and not even destroyed.
  virtual int exit_code() const { return 0; }

  // Any thread.
  virtual absl::StatusOr<worker::v1::DatasetReply> InspectDataset(
      const worker::v1::InspectDataset& request) = 0;
  virtual v1::Device info() const = 0;
  // Returns the readings. UNIMPLEMENTED without a source of readings, DATA_LOSS
  // for a device that is lost.
  virtual absl::StatusOr<v1::GpuReadings> Readings() const = 0;
  virtual v1::MemoryStats memory_stats() const = 0;
  // Answers a request about the device itself (device_verbs.h). Returns nothing
  // for a request of any other kind.
  virtual std::optional<absl::StatusOr<worker::v1::FromWorker>> AnswerVerb(
      const worker::v1::ToWorker& request) = 0;
};

struct EngineOptions {
  std::string device;  // "cpu:0", "cuda:1" or "meta"
  uint64_t memory_limit_bytes = 0;
  uint32_t threads = 1;
  std::string blob_dir;
  std::string unpack_dir;  // existing folder for unpacked copies of datasets
  // For "meta": the kind of device that plans are made for.
  std::string plan_for = "cpu";
  // For "meta": that device's facts as JSON of gpu_facts_text.h; may be empty.
  std::string plan_facts;
  // Folders of NVIDIA's libraries, separated by colons; may be empty.
  std::string cuda_lib_dir;
  // Folder that keeps the choices of those libraries from one worker to the
  // next.
  std::string plan_cache_dir;
};
// Makes the engine. Called once, before the compute thread starts.
using EngineFactory =
    std::function<absl::StatusOr<std::unique_ptr<Engine>>(EngineOptions)>;

}  // namespace gpupool::server
