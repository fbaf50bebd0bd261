// Session: the only door to the engine. One per worker process and device; it
// owns the device's allocator and back end, and makes training runs and
// loaded models on it.
//
// Threads: everything is called from one compute thread, but InspectDataset,
// what is declared from info() on may be called from any thread. A Session
// outlives the runs and models that it made.
//
// On the `meta` device PlanTraining, PlanInference and InspectDataset work;
// StartTraining and LoadModel answer FailedPrecondition. It plans for a device
// of the kind `plan_for`, whose kernels decide how much scratch there is.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/cuda_devices.h"
#include "engine/data/label_facts.h"
#include "engine/runtime/device_memory.h"
#include "engine/served_model.h"
#include "engine/tensor/device.h"
#include "engine/train/training.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {

struct SessionOptions {
  Device device;
  // 0: what the device has. Of meta, that of the devices it plans for.
  uint64_t memory_limit_bytes = 0;
  int threads = 1;       // for computing; >= 1
  std::string blob_dir;  // existing folder of content-named files
  CudaOptions cuda;      // cuda devices only
  // meta only: cpu or cuda. Where nothing can plan for such a GPU, plans are
  // those of the CPU and carry a warning that says so.
  Device plan_for;
  // Of that GPU, as another process was told; absent: the driver is asked, and
  // no context is made either.
  std::optional<DeviceFacts> planned_device;
};

struct TrainingPlan {
  v1::Plan plan;
  uint64_t total_steps = 0;
};

struct ImportedModel {
  v1::Plan plan;
  std::string manifest_sha256;
};

enum class ExportFormat : uint8_t { kOnnx, kSafetensors };

struct ExportedModel {
  std::string sha256;
  uint64_t bytes = 0;
};

struct MemoryDump {
  std::string sha256;
  uint64_t bytes = 0;
};

struct DatasetFacts {
  uint64_t rows = 0;
  std::vector<int64_t> feature_shape;  // of one row, as stored
  LabelFacts labels;
};

// What serving is planned for.
struct ServingLimits {
  uint32_t max_batch_size = 0;  // 0: 32
  uint32_t max_programs = 0;    // kept where sizes vary; 0: 16
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
};

class Session {
 public:
  // Unimplemented for kinds that no build can drive; for cuda devices as
  // OpenCudaDevice; InvalidArgument for impossible options.
  static absl::StatusOr<std::unique_ptr<Session>> Create(
      SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // What the job needs, from the spec and the dataset's facts (rows, feature
  // shape, classes); reads no rows. InvalidArgument names the layer or field
  // and the remedy. The plan has training and inference parts.
  absl::StatusOr<TrainingPlan> PlanTraining(const v1::JobSpec& spec,
                                            const v1::Dataset& dataset);
  // What serving the model needs, all batch buckets counted, and max_programs
  // where sizes vary.
  absl::StatusOr<v1::Plan> PlanInference(const v1::ModelSpec& spec,
                                         const ServingLimits& limits);

  // Plans a model that was uploaded and stores a checkpoint of it: its weights
  // are the safetensors blob `weights_sha256`, or those in the ONNX file when
  // that is empty. InvalidArgument names the layer, node or tensor that is
  // wrong; NotFound when a blob is missing; Unimplemented lists the operators
  // that are not supported; FailedPrecondition names the inputs whose numbers
  // decide shapes and of which the spec has none to plan with.
  absl::StatusOr<ImportedModel> ImportModel(const v1::ModelSpec& spec,
                                            const std::string& weights_sha256,
                                            const ServingLimits& limits);

  // Stores a version as one file: an ONNX model, or its weights as
  // safetensors. InvalidArgument when it is larger than the format allows.
  absl::StatusOr<ExportedModel> ExportModel(const std::string& manifest_sha256,
                                            ExportFormat format);

  // Reads every row. InvalidArgument names file, line and column of what is
  // wrong; NotFound when a blob is missing; DataLoss when its digest differs.
  absl::StatusOr<DatasetFacts> InspectDataset(
      const v1::DatasetLayout& layout,
      const std::vector<v1::DatasetFile>& files);

  // Reads the dataset, compiles, and sets the weights: initial, or those of
  // the checkpoint to resume from. ResourceExhausted when memory lacks.
  absl::StatusOr<std::unique_ptr<Training>> StartTraining(
      const TrainingRequest& request);
  // DataLoss when the checkpoint's bytes do not match their digests.
  absl::StatusOr<std::unique_ptr<ServedModel>> LoadModel(
      const LoadRequest& request);
  // Batches whose tensors lie in `memory` go to the device and back without
  // being copied on the host. As Transfer::Register, whose object must go
  // before the session; on a refusal such batches are served as others are.
  absl::StatusOr<std::unique_ptr<HostRegistration>> RegisterHostMemory(
      absl::Span<std::byte> memory);

  // Kind, description (processor or GPU), limit, threads, memory, and what a
  // GPU is.
  v1::Device info() const;
  // Unimplemented where there is nothing that could tell; DataLoss when the
  // device is lost.
  absl::StatusOr<v1::GpuReadings> Read() const;
  v1::MemoryStats memory_stats() const;
  // With every figure by PyTorch's name.
  v1::MemoryStats AllMemoryStats() const;
  v1::MemorySnapshot Snapshot() const;
  std::string MemorySummary() const;
  // Bytes given back to the system.
  uint64_t EmptyCache();
  void ResetPeak();
  // InvalidArgument when it is not above 0 and at most 1; FailedPrecondition
  // when more than that is held, and by whom.
  absl::Status SetMemoryFraction(double fraction);
  // Remembers the last `max_entries` allocations and frees from now on; 0
  // forgets them and ends it. InvalidArgument for too many.
  absl::Status RecordMemoryHistory(uint64_t max_entries);
  // Stores snapshot and history as a file that PyTorch's memory tools read.
  absl::StatusOr<MemoryDump> DumpMemory() const;

  class Impl;

 private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Splits an error of a run into message and hint (the part after "; hint: ").
v1::JobError ToJobError(const absl::Status& status, uint64_t step);

// Whether trying the same job again cannot help: InvalidArgument, NotFound,
// FailedPrecondition, OutOfRange and Unimplemented.
bool IsJobsOwnFault(const absl::Status& status);

}  // namespace gpupool::engine
