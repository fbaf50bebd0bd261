// The worker's interface to the engine. The loop, the turnstile and the job
// runner use only this, so that tests can put a deterministic engine behind it.
// SessionEngine is the real one.
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
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {

// Ends a training that waits, or will wait, for the other ranks of its group.
// May be used from any thread at any time. The training's call then fails with
// Aborted.
class GroupAbort {
 public:
  virtual ~GroupAbort() = default;
  virtual void Abort(const std::string& reason) = 0;
};

// A checkpoint in host memory, as engine::CheckpointCopy. May be used on any
// thread, also after its training is gone.
class CheckpointCopy {
 public:
  virtual ~CheckpointCopy() = default;
  // Writes the checkpoint, which is on disk when it returns.
  virtual absl::StatusOr<v1::Checkpoint> Write() = 0;
};

// An attempt of a job, or one rank of it, as engine::TrainingRun.
class Training {
 public:
  virtual ~Training() = default;
  // The three parts of one step. Between the first and the last the engine may
  // be asked only for inference.
  virtual absl::Status StartStep() = 0;
  virtual bool StepIsDone() = 0;  // does not block
  virtual absl::Status FinishStep() = 0;
  virtual uint64_t step() const = 0;
  virtual uint64_t total_steps() const = 0;
  virtual uint32_t rows_per_step() const = 0;
  virtual uint32_t epoch() const = 0;
  virtual bool at_epoch_end() const = 0;
  virtual absl::StatusOr<double> Loss() = 0;
  // Returns 0 without loss scaling.
  virtual double loss_scale() const = 0;
  virtual uint64_t skipped_steps() const = 0;
  // Saves a checkpoint, which is on disk when it returns.
  virtual absl::StatusOr<v1::Checkpoint> SaveCheckpoint() = 0;
  // Copies a checkpoint to host memory. ResourceExhausted when the host has no
  // room for it.
  virtual absl::StatusOr<std::unique_ptr<CheckpointCopy>> CopyCheckpoint() = 0;
  virtual absl::StatusOr<v1::Evaluation> Evaluate() = 0;
  virtual bool has_held_out_rows() const = 0;
  virtual uint64_t evaluated_step() const = 0;
  virtual bool newest_evaluation_is_best() const = 0;
  virtual bool stopped_early() const = 0;
  virtual v1::MemoryUse memory() const = 0;
  // Asks all ranks of a group to stop after the same step, and returns whether
  // they have.
  virtual void RequestStop() = 0;
  virtual bool stop_agreed() const = 0;
};

// A batch for a served model, as engine::InferenceBatch: one span per input and
// output, each of `rows` rows.
struct ServedBatch {
  uint32_t rows = 1;
  absl::Span<const int64_t> sizes;  // sizes of ServedModel::dimensions
  absl::Span<const absl::Span<const std::byte>> inputs;
  absl::Span<const absl::Span<std::byte>> outputs;
};

struct ServedAnswer {
  std::vector<std::vector<int64_t>> shapes;  // shapes of the whole outputs
  uint32_t compiled = 0;                     // programs compiled for it
  uint32_t evicted = 0;
};

// A version that answers requests, as engine::LoadedModel.
class ServedModel {
 public:
  virtual ~ServedModel() = default;
  virtual const std::vector<v1::TensorSpec>& inputs() const = 0;
  virtual const std::vector<v1::TensorSpec>& outputs() const = 0;
  // Returns the names of the dimensions of several sizes, rising.
  virtual const std::vector<std::string>& dimensions() const = 0;
  virtual uint64_t measured_bytes() const = 0;
  virtual absl::Status Infer(const ServedBatch& batch,
                             ServedAnswer* answer) = 0;
};

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
  // Starts a training. `abort` is from NewAbort, or null without it. A rank of
  // a group returns when all ranks have come.
  virtual absl::StatusOr<std::unique_ptr<Training>> StartTraining(
      const worker::v1::StartJob& request,
      std::shared_ptr<GroupAbort> abort) = 0;
  virtual absl::StatusOr<std::unique_ptr<ServedModel>> LoadModel(
      const worker::v1::LoadVersion& request) = 0;
  // Lets the device itself copy tensors of batches from and to `memory`, as
  // long as the result is held. The result must be destroyed on the compute
  // thread, before the memory and the engine. Null when the device gains
  // nothing by it. After an error such batches are served as others are.
  virtual absl::StatusOr<std::shared_ptr<void>> RegisterMemory(
      absl::Span<std::byte> memory) = 0;

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

  // Any thread. Returns a new way to abort a group.
  virtual std::shared_ptr<GroupAbort> NewAbort() = 0;
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
