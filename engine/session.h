// Session: the only entrance to the engine. A worker process has one, for its
// device. It owns the device's allocator and back end, and makes training runs
// and loaded models.
//
// Threads: everything is called from one compute thread, except that any thread
// may call InspectDataset and the functions declared from info() on. A Session
// must outlive the runs and models that it made.
//
// On the `meta` device PlanTraining, PlanInference and InspectDataset work;
// StartTraining and LoadModel return FAILED_PRECONDITION. It plans for a device
// of the kind `plan_for`, whose kernels decide the sizes of scratch.
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
  // The limit; 0: all memory of the device. On meta, the limit of the devices
  // it plans for.
  uint64_t memory_limit_bytes = 0;
  int threads = 1;       // for computing; >= 1
  std::string blob_dir;  // existing folder of content-named files
  // Existing folder for unpacked copies of datasets, in files without a name.
  // Empty: such copies are in memory.
  std::string unpack_dir;
  // The most bytes of a dataset in memory; a larger one is mapped.
  uint64_t data_memory_bytes = uint64_t{1} << 30;
  CudaOptions cuda;  // cuda devices only
  // meta only: cpu or cuda. If nothing can plan for such a GPU, plans are those
  // of the CPU and carry a warning.
  Device plan_for;
  // The facts of that GPU from another process. If absent, the driver is asked,
  // also without a context.
  std::optional<DeviceFacts> planned_device;
};

// Says whether a job is planned for its first time or was planned and stored,
// maybe by an older version that refused less.
enum class JobOrigin : uint8_t { kNew, kStored };

struct TrainingPlan {
  v1::Plan plan;
  uint64_t total_steps = 0;
  uint64_t training_rows = 0;
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
  // With named inputs: the first one's facts.
  std::vector<int64_t> feature_shape;  // one row's, as stored
  LabelFacts labels;                   // with named targets: the first one's
  v1::DataType feature_type = v1::DATA_TYPE_UNSPECIFIED;
  // Named arrays only.
  std::vector<v1::DatasetArray> inputs;
  std::vector<v1::DatasetArray> targets;
  v1::DatasetDescription description;
};

// The options of serving to plan for.
struct ServingLimits {
  uint32_t max_batch_size = 0;  // 0: 32
  uint32_t max_programs = 0;    // kept if sizes vary; 0: 16
  v1::Precision precision = v1::PRECISION_UNSPECIFIED;
};

class Session {
 public:
  // Opens the device. INVALID_ARGUMENT for impossible options, UNIMPLEMENTED
  // for kinds that no build can drive, and for cuda devices the errors of
  // OpenCudaDevice.
  static absl::StatusOr<std::unique_ptr<Session>> Create(
      SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Returns the needs of the job, from the spec and the facts (rows, feature
  // shape, classes) of its dataset and of its validation set, if it has one;
  // reads no rows. INVALID_ARGUMENT names the layer or field and the remedy.
  // The plan has a training and an inference part. The names in the options of
  // the model of a new job are checked.
  absl::StatusOr<TrainingPlan> PlanTraining(
      const v1::JobSpec& spec, const v1::Dataset& dataset,
      const v1::Dataset& validation = v1::Dataset::default_instance(),
      JobOrigin origin = JobOrigin::kNew);
  // Returns the needs of serving the model, counting all batch buckets, and
  // max_programs if sizes vary.
  absl::StatusOr<v1::Plan> PlanInference(const v1::ModelSpec& spec,
                                         const ServingLimits& limits);

  // Plans an uploaded model and stores a checkpoint of it. Its weights are the
  // safetensors blob `weights_sha256`, or those in the ONNX file if that is
  // empty.
  //   INVALID_ARGUMENT     names the layer, node or tensor that is wrong
  //   NOT_FOUND            a blob is missing
  //   UNIMPLEMENTED        lists the operators that are not supported
  //   FAILED_PRECONDITION  shapes depend on numbers of inputs, and the spec has
  //                        none to plan with; names the inputs
  absl::StatusOr<ImportedModel> ImportModel(const v1::ModelSpec& spec,
                                            const std::string& weights_sha256,
                                            const ServingLimits& limits);

  // Stores a version as one file: an ONNX model, or its weights as safetensors.
  // INVALID_ARGUMENT when it is larger than the format allows.
  absl::StatusOr<ExportedModel> ExportModel(const std::string& manifest_sha256,
                                            ExportFormat format);

  // Reads every row. INVALID_ARGUMENT names file, line and column of an error;
  // NOT_FOUND when a blob is missing; DATA_LOSS when its digest differs.
  absl::StatusOr<DatasetFacts> InspectDataset(
      const v1::DatasetLayout& layout,
      const std::vector<v1::DatasetFile>& files);

  // Reads the dataset, compiles, and sets the weights: initial ones, or those
  // of the checkpoint to resume from. RESOURCE_EXHAUSTED when memory is not
  // enough.
  absl::StatusOr<std::unique_ptr<Training>> StartTraining(
      const TrainingRequest& request);
  // Loads a version for serving. DATA_LOSS when the checkpoint's bytes do not
  // match their digests.
  absl::StatusOr<std::unique_ptr<ServedModel>> LoadModel(
      const LoadRequest& request);
  // Registers `memory`, so that batches whose tensors are in it are not copied
  // on the host. As Transfer::Register; the result must be destroyed before the
  // session. If it is refused, such batches are served like others.
  absl::StatusOr<std::unique_ptr<HostRegistration>> RegisterHostMemory(
      absl::Span<std::byte> memory);

  // Makes measurement `index` of device_bench.h and adds it to `bench`. Returns
  // whether more follow. Begin with index 0 and an empty message, which also
  // gets the facts of the device. OUT_OF_RANGE for an index without a
  // measurement, FAILED_PRECONDITION on the meta device; else only faults of
  // the device.
  absl::StatusOr<bool> MeasureDevice(uint32_t index, v1::DeviceBench& bench);

  // Returns kind, description (processor or GPU), limit, threads, memory, and
  // the facts of a GPU.
  v1::Device info() const;
  // Returns the GPU's current readings. UNIMPLEMENTED when the machine cannot
  // provide them; DATA_LOSS when the device is lost.
  absl::StatusOr<v1::GpuReadings> Read() const;
  v1::MemoryStats memory_stats() const;
  // Returns the statistics with every figure by PyTorch's name.
  v1::MemoryStats AllMemoryStats() const;
  // Returns the blocks, and the timeline of the history if that is wanted.
  v1::MemorySnapshot Snapshot(bool with_timeline = false) const;
  std::string MemorySummary() const;
  // Gives unused memory back to the system and returns its bytes.
  uint64_t EmptyCache();
  void ResetPeak();
  // Sets the allocator's limit to this share of the device's. INVALID_ARGUMENT
  // when it is not above 0 and at most 1; FAILED_PRECONDITION, naming the
  // largest holder, when more than that is held.
  absl::Status SetMemoryFraction(double fraction);
  // Starts to record the last `max_entries` allocations and frees; 0 ends it
  // and forgets them. INVALID_ARGUMENT for too many.
  absl::Status RecordMemoryHistory(uint64_t max_entries);
  // Stores snapshot and history as a file for PyTorch's memory tools.
  absl::StatusOr<MemoryDump> DumpMemory() const;

  class Impl;

 private:
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// Splits an error of a run into message and hint (the part after "; hint: ").
v1::JobError ToJobError(const absl::Status& status, uint64_t step);

// Returns whether trying the same job again cannot help: INVALID_ARGUMENT,
// NOT_FOUND, FAILED_PRECONDITION, OUT_OF_RANGE and UNIMPLEMENTED.
bool IsJobsOwnFault(const absl::Status& status);

}  // namespace gpupool::engine
