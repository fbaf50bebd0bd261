// What a worker needs of the engine, and nothing more: the loop, the turnstile
// and the job runner are written against this, so that they are tested with a
// deterministic stand-in. SessionEngine is the real one.
//
// Trainings and models are the engine's own interfaces: nothing stands between
// them and the worker but the watch (watched_engine.h).
//
// Threads: as engine::Session. Everything is called from the compute thread,
// but Engine's methods marked "any thread".
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
  // `abort` ends a training that waits for the other ranks of its group, or
  // will: the training's call then fails with Aborted. Null: nobody aborts. A
  // rank of a group returns when all of them have come.
  virtual absl::StatusOr<std::unique_ptr<engine::Training>> StartTraining(
      const worker::v1::StartJob& request,
      std::shared_ptr<engine::AbortSwitch> abort) = 0;
  virtual absl::StatusOr<std::unique_ptr<engine::ServedModel>> LoadModel(
      const worker::v1::LoadVersion& request) = 0;
  // Lets the device copy tensors of batches that lie in `memory` from there and
  // to there itself, as long as somebody holds what is returned; it is dropped
  // on the compute thread, before the memory and the engine go. Null where the
  // device gains nothing by it. After an error such batches are served as
  // others are.
  virtual absl::StatusOr<std::shared_ptr<void>> RegisterMemory(
      absl::Span<std::byte> memory) = 0;

  // Any thread. Whether trying the same job again cannot help, and the error in
  // words.
  virtual bool IsJobsOwnFault(const absl::Status& status) const = 0;
  virtual v1::JobError ToJobError(const absl::Status& status,
                                  uint64_t step) const = 0;
  // Any thread. Not 0 for an error that only a new process can get over: the
  // exit code with which this one is to end (server/ipc/work_page.h).
  virtual int ExitCodeFor(const absl::Status& /*status*/) const { return 0; }
  // Any thread. Not 0 once such an error has happened: nothing more is to be
  // asked of the engine, not even to be destroyed.
  virtual int exit_code() const { return 0; }

  // Any thread.
  virtual absl::StatusOr<worker::v1::DatasetReply> InspectDataset(
      const worker::v1::InspectDataset& request) = 0;
  virtual v1::Device info() const = 0;
  // UNIMPLEMENTED where nothing can tell, DATA_LOSS for a device that is lost.
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
  // meta: a device of the kind that is planned for.
  std::string plan_for = "cpu";
  // meta: what that device is, as JSON of gpu_facts_text.h; may be empty.
  std::string plan_facts;
  // Folders of NVIDIA's libraries, separated by colons; may be empty.
  std::string cuda_lib_dir;
  // Where what those libraries chose is kept from one worker to the next.
  std::string plan_cache_dir;
};
// Called once, before the compute thread starts.
using EngineFactory =
    std::function<absl::StatusOr<std::unique_ptr<Engine>>(EngineOptions)>;

}  // namespace gpupool::server
