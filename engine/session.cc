#include "engine/session.h"

#include <google/protobuf/util/time_util.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/data/dataset_reader.h"
#include "engine/data/describe.h"
#include "engine/device_bench.h"
#include "engine/loaded_model.h"
#include "engine/memory/snapshot_file.h"
#include "engine/model/precision.h"
#include "engine/serving/inference_programs.h"
#include "engine/session_convert.h"
#include "engine/session_device.h"
#include "engine/train/blob_file.h"
#include "engine/train/device_context.h"
#include "engine/train/host_weights.h"
#include "engine/train/job_check.h"
#include "engine/train/programs.h"
#include "engine/train/step_work.h"
#include "engine/train/training_run.h"

namespace gpupool::engine {
namespace {

constexpr absl::string_view kHintMark = "; hint: ";
// The devices that PyTorch's viewer can show; it finds one by its number.
constexpr int kMostViewedDevices = 64;

// Adds the memory that captured runs take outside of the allocator.
void AddRecordings(const SessionDevice& device, v1::MemoryStats& stats) {
  const RecordingCounters* const counters = device.recordings();
  if (counters == nullptr) return;
  const uint64_t limit = RecordingBytes(device.facts()->total_bytes);
  const std::pair<const char*, uint64_t> values[] = {
      {"recordings.count", counters->captures},
      {"recordings.bytes", counters->bytes},
      {"recordings.limit_bytes", limit},
      {"recordings.evicted", counters->evictions},
      {"recordings.refused", counters->refusals}};
  for (const auto& [name, value] : values) {
    (*stats.mutable_by_pytorch_name())[name] = value;
  }
}

v1::DatasetArray DescribeColumn(const Column& column) {
  v1::DatasetArray array;
  array.set_name(column.name);
  array.set_data_type(ToProto(column.stored));
  array.mutable_shape()->Add(column.shape.begin(), column.shape.end());
  return array;
}

// Checks the blob and returns it as the weights of a checkpoint.
absl::StatusOr<CheckpointFile> CheckWeights(const std::string& blob_dir,
                                            const std::string& sha256,
                                            const WeightLayout& layout) {
  std::vector<TensorFacts> facts;
  for (const WeightEntry& entry : layout.entries()) {
    facts.push_back({entry.name, entry.dtype, entry.shape});
  }
  ASSIGN_OR_RETURN(const uint64_t bytes, CheckTensors(blob_dir, sha256, facts));
  return CheckpointFile{"weights", sha256, bytes};
}

}  // namespace

class Session::Impl {
 public:
  explicit Impl(SessionOptions options) : options_(std::move(options)) {}

  absl::Status Open() {
    const int threads = options_.threads;
    switch (options_.device.type) {
      case DeviceType::kCpu:
        device_ = SessionDevice::OfHost(name(), limit(), threads);
        return absl::OkStatus();
      // Plans with the host's kernels unless OpenPlanner finds those of a GPU.
      case DeviceType::kMeta:
        device_ = SessionDevice::OfHost(name(), limit(), threads);
        return OpenPlanner();
      case DeviceType::kCuda: {
        ASSIGN_OR_RETURN(device_, OpenGpu(options_.device, limit()));
        return absl::OkStatus();
      }
      case DeviceType::kMps:
        break;
    }
    return absl::UnimplementedError(absl::StrCat(
        "device ", name(), " cannot be driven; cpu, cuda and meta can"));
  }

  const SessionOptions& options() const { return options_; }
  std::string name() const { return ToString(options_.device); }
  SessionDevice& device() const { return *device_; }
  CachingAllocator& allocator() const { return device_->allocator(); }
  // Returns the back end whose kernels are planned with.
  DeviceBackend* backend() const {
    return planner_.backend != nullptr ? planner_.backend.get()
                                       : &device_->backend();
  }
  // Makes the device current. Call it first wherever something is compiled or
  // computed.
  absl::Status Enter() const { return device_->MakeCurrent(); }
  DeviceContext context() const {
    return {backend(),
            &allocator(),
            options_.blob_dir,
            device_->limit_bytes(),
            [device = device_.get()] { return device->timer(); },
            read_limits()};
  }
  ReadLimits read_limits() const {
    return {.memory_bytes = options_.data_memory_bytes,
            .unpack_dir = options_.unpack_dir};
  }
  // Returns the bytes of host memory that the dataset takes. One that is not
  // there yet, or no longer, takes none; the job's start reports an unreadable
  // one.
  uint64_t HostBytes(const v1::Dataset& dataset) const {
    return HostDataBytes(dataset, options_.blob_dir, read_limits()).value_or(0);
  }
  // Returns the bytes that a job may take where it will run.
  uint64_t planned_limit() const {
    if (limit() != 0) return limit();
    return planner_.backend != nullptr ? UsableBytes(planner_.facts)
                                       : device_->limit_bytes();
  }
  absl::StatusOr<std::shared_ptr<const ModelSource>> Open(
      const v1::ModelSpec& spec) const {
    return ModelSource::Open(spec, options_.blob_dir);
  }
  // Opens a model that is not yet stored, and checks its names.
  absl::StatusOr<std::shared_ptr<const ModelSource>> OpenNew(
      const v1::ModelSpec& spec) const {
    ASSIGN_OR_RETURN(auto source, Open(spec));
    RETURN_IF_ERROR(source->CheckNames());
    return source;
  }
  // Returns FAILED_PRECONDITION on the meta device.
  absl::Status RefuseMeta(absl::string_view what) const {
    if (options_.device.type != DeviceType::kMeta) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "the meta device has no memory and cannot ", what, "; it only plans"));
  }
  // Adds the warning about a file in 16 bits that a GPU serves in float32.
  void AddPrecisionWarning(const ModelSource& source, v1::Precision precision,
                           v1::Plan& plan) const {
    const bool gpu = planner_.backend != nullptr ||
                     options_.device.type == DeviceType::kCuda;
    if (!gpu || !source.stores_halves() ||
        ComputeType(precision) != DType::kFloat32) {
      return;
    }
    AddWarning(
        "the file has weights of 16 bits, and with this precision they take 32 "
        "bits on the device; precision fp16 or bf16 keeps 16 and is faster",
        *plan.mutable_warnings());
  }
  void AddPlannersWarning(v1::Plan& plan) const {
    if (no_planner_.empty()) return;
    AddWarning(no_planner_, *plan.mutable_warnings());
  }

 private:
  uint64_t limit() const { return options_.memory_limit_bytes; }

  absl::StatusOr<std::unique_ptr<SessionDevice>> OpenGpu(
      const Device& device, uint64_t limit_bytes) const {
    ASSIGN_OR_RETURN(auto gpu, OpenCudaDevice(device.index, options_.cuda));
    return SessionDevice::OfModule(ToString(device), limit_bytes,
                                   std::move(gpu));
  }

  // Makes a back end that asks a GPU's kernels for their scratch sizes. The GPU
  // is not opened.
  absl::Status OpenPlanner() {
    const Device& device = options_.plan_for;
    if (device.type == DeviceType::kCpu) return absl::OkStatus();
    if (device.type != DeviceType::kCuda) {
      return absl::InvalidArgumentError(absl::StrCat(
          "plans are made for cpu or cuda, not for ", ToString(device)));
    }
    auto planner =
        MakeCudaPlanner(device.index, options_.planned_device, options_.cuda);
    if (planner.ok()) {
      planner_ = *std::move(planner);
    } else {
      // A plan for the CPU is still useful, so this is only a warning.
      no_planner_ = absl::StrCat(
          "planned with the kernels of a CPU, whose scratch differs: ",
          planner.status().message());
    }
    return absl::OkStatus();
  }

  const SessionOptions options_;
  std::unique_ptr<SessionDevice> device_;
  CudaPlanner planner_;  // has no back end if the device plans for itself
  // The reason why a planner that is wanted does not exist; else empty.
  std::string no_planner_;
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Create(
    SessionOptions options) {
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", options.threads, "; at least 1 is needed"));
  }
  auto impl = std::make_unique<Impl>(std::move(options));
  RETURN_IF_ERROR(impl->Open());
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

absl::StatusOr<TrainingPlan> Session::PlanTraining(
    const v1::JobSpec& spec, const v1::Dataset& dataset,
    const v1::Dataset& validation, JobOrigin origin) {
  RETURN_IF_ERROR(impl_->Enter());
  ASSIGN_OR_RETURN(const auto source, origin == JobOrigin::kNew
                                          ? impl_->OpenNew(spec.model())
                                          : impl_->Open(spec.model()));
  ASSIGN_OR_RETURN(const DataFacts facts, FactsOf(spec, dataset, validation));
  ASSIGN_OR_RETURN(
      TrainingPrograms programs,
      CompileTraining(*source, spec, facts, {.backend = impl_->backend()}));
  PlanLanding(spec, impl_->planned_limit(), programs);
  // The plan also covers serving the result, with the options of the job's
  // publish section.
  InferenceOptions options =
      ToOptions({.max_batch_size = spec.publish().serving().max_batch_size(),
                 .precision = spec.publish().serving().precision()});
  options.input_scaling =
      spec.data().scaling().rule_case() != v1::Scaling::RULE_NOT_SET;
  ASSIGN_OR_RETURN(const InferencePrograms inference,
                   CompileInference(*source, options, impl_->backend()));
  TrainingPlan result;
  result.total_steps = programs.length.total_steps;
  result.training_rows = programs.length.training_rows;
  DescribeModel(inference, source->served(), result.plan);
  for (const std::string& warning : programs.warnings) {
    AddWarning(warning, *result.plan.mutable_warnings());
  }
  impl_->AddPlannersWarning(result.plan);
  // StepFlopsOf counts one device.
  result.plan.set_training_flops_per_step(DevicesOf(spec) *
                                          StepFlopsOf(programs));
  *result.plan.mutable_training() = ToProto(BytesOf(programs));
  *result.plan.mutable_step_work() = StepWorkOf(programs);
  uint64_t host_bytes = impl_->HostBytes(dataset);
  if (!spec.data().validation().empty()) {
    host_bytes += impl_->HostBytes(validation);
  }
  ASSIGN_OR_RETURN(const uint64_t prefetched,
                   PrefetchedBytes(spec.data(), programs));
  result.plan.set_host_data_bytes(host_bytes + prefetched);
  return result;
}

absl::StatusOr<v1::Plan> Session::PlanInference(const v1::ModelSpec& spec,
                                                const ServingLimits& limits) {
  RETURN_IF_ERROR(impl_->Enter());
  ASSIGN_OR_RETURN(const auto source, impl_->OpenNew(spec));
  if (source->text_plan() != nullptr) return *source->text_plan();
  ASSIGN_OR_RETURN(
      const InferencePrograms programs,
      CompileInference(*source, ToOptions(limits), impl_->backend()));
  v1::Plan plan;
  DescribeModel(programs, source->served(), plan);
  impl_->AddPlannersWarning(plan);
  impl_->AddPrecisionWarning(*source, limits.precision, plan);
  return plan;
}

absl::StatusOr<ImportedModel> Session::ImportModel(
    const v1::ModelSpec& spec, const std::string& weights_sha256,
    const ServingLimits& limits) {
  RETURN_IF_ERROR(impl_->Enter());
  ASSIGN_OR_RETURN(const auto source, impl_->OpenNew(spec));
  if (source->text_plan() != nullptr) {
    ASSIGN_OR_RETURN(const WrittenBlob written,
                     WriteManifest(impl_->options().blob_dir,
                                   {.model = spec, .files = ModelFiles(spec)}));
    return ImportedModel{*source->text_plan(), written.sha256};
  }
  ASSIGN_OR_RETURN(
      const InferencePrograms programs,
      CompileInference(*source, ToOptions(limits), impl_->backend()));
  ImportedModel imported;
  DescribeModel(programs, source->served(), imported.plan);
  impl_->AddPlannersWarning(imported.plan);
  impl_->AddPrecisionWarning(*source, limits.precision, imported.plan);
  // Weights are checked before the manifest is written, because the manifest
  // makes the checkpoint exist.
  const std::string& blob_dir = impl_->options().blob_dir;
  Manifest manifest = {.model = spec, .files = ModelFiles(spec)};
  if (!weights_sha256.empty()) {
    ASSIGN_OR_RETURN(CheckpointFile weights,
                     CheckWeights(blob_dir, weights_sha256, programs.layout));
    manifest.files.push_back(std::move(weights));
  } else if (!FilesHaveWeights(spec)) {
    return absl::InvalidArgumentError(
        "a model of layers comes with its weights as a safetensors file; send "
        "them in chunks, or name the file in spec.weights");
  }
  ASSIGN_OR_RETURN(const WrittenBlob written,
                   WriteManifest(blob_dir, manifest));
  imported.manifest_sha256 = written.sha256;
  return imported;
}

absl::StatusOr<ExportedModel> Session::ExportModel(
    const std::string& manifest_sha256, ExportFormat format) {
  const std::string& blob_dir = impl_->options().blob_dir;
  ASSIGN_OR_RETURN(const Manifest manifest,
                   ReadManifest(blob_dir, manifest_sha256));
  ASSIGN_OR_RETURN(const auto source, impl_->Open(manifest.model));
  ASSIGN_OR_RETURN(const HostWeights weights,
                   HostWeights::Read(blob_dir, manifest, *source));
  if (format == ExportFormat::kSafetensors) {
    ASSIGN_OR_RETURN(const CheckpointFile file,
                     WriteTensors(blob_dir, "weights", weights.tensors()));
    return ExportedModel{file.sha256, file.bytes};
  }
  ASSIGN_OR_RETURN(const std::string bytes,
                   source->ExportOnnx(weights.ToExport()));
  ASSIGN_OR_RETURN(const WrittenBlob blob,
                   WriteBlob(blob_dir, {absl::string_view(bytes)}));
  return ExportedModel{blob.sha256, blob.bytes};
}

absl::StatusOr<DatasetFacts> Session::InspectDataset(
    const v1::DatasetLayout& layout,
    const std::vector<v1::DatasetFile>& files) {
  ReadLimits limits = impl_->read_limits();
  limits.is_new = true;
  ASSIGN_OR_RETURN(
      const Table table,
      ReadDataset(layout, files, impl_->options().blob_dir, limits));
  DatasetFacts facts = {table.rows, table.features().shape,
                        table.labels().facts, ToProto(table.features().stored)};
  for (const Column& column : table.inputs) {
    if (!column.name.empty()) facts.inputs.push_back(DescribeColumn(column));
  }
  for (const Column& column : table.targets) {
    if (column.name.empty()) continue;
    facts.targets.push_back(DescribeColumn(column));
    ToProto(column.facts, facts.targets.back().mutable_facts());
  }
  facts.description = DescribeTable(table);
  return facts;
}

absl::StatusOr<std::unique_ptr<Training>> Session::StartTraining(
    const TrainingRequest& request) {
  RETURN_IF_ERROR(impl_->RefuseMeta("train"));
  RETURN_IF_ERROR(impl_->Enter());
  return TrainingRun::Create(impl_->context(), request);
}

absl::StatusOr<std::unique_ptr<ServedModel>> Session::LoadModel(
    const LoadRequest& request) {
  RETURN_IF_ERROR(impl_->RefuseMeta("serve"));
  RETURN_IF_ERROR(impl_->Enter());
  // Serving has its own back end, so that requests do not wait for a step.
  DeviceContext context = impl_->context();
  ASSIGN_OR_RETURN(context.backend, impl_->device().ServingBackend());
  return LoadedModel::Create(context, request);
}

absl::StatusOr<std::unique_ptr<HostRegistration>> Session::RegisterHostMemory(
    absl::Span<std::byte> memory) {
  RETURN_IF_ERROR(impl_->device().MakeCurrent());
  return impl_->device().backend().transfer().Register(memory);
}

absl::StatusOr<bool> Session::MeasureDevice(uint32_t index,
                                            v1::DeviceBench& bench) {
  RETURN_IF_ERROR(impl_->RefuseMeta("be measured"));
  if (index >= BenchCases()) {
    return absl::OutOfRangeError(absl::StrCat("there is no measurement ", index,
                                              "; there are ", BenchCases(),
                                              ", from 0"));
  }
  RETURN_IF_ERROR(impl_->Enter());
  if (index == 0) {
    bench.set_device(impl_->name());
    bench.set_description(impl_->device().description());
    bench.set_threads(static_cast<uint32_t>(impl_->options().threads));
    *bench.mutable_time() = google::protobuf::util::TimeUtil::GetCurrentTime();
  }
  RETURN_IF_ERROR(MeasureBenchCase(impl_->device(), index, bench));
  return index + 1 < BenchCases();
}

v1::Device Session::info() const {
  v1::Device info;
  const SessionDevice& device = impl_->device();
  info.set_name(impl_->name());
  info.set_kind(std::string(DeviceTypeName(impl_->options().device.type)));
  info.set_description(device.description());
  info.set_limit_bytes(device.limit_bytes());
  info.set_threads(static_cast<uint32_t>(impl_->options().threads));
  *info.mutable_memory() = memory_stats();
  if (device.facts() != nullptr) *info.mutable_gpu() = ToProto(*device.facts());
  if (device.peak_rates() != PeakRates()) {
    *info.mutable_peak_rates() = ToProto(device.peak_rates());
  }
  return info;
}

absl::StatusOr<v1::GpuReadings> Session::Read() const {
  ASSIGN_OR_RETURN(const DeviceReadings readings, impl_->device().Read());
  return ToProto(readings);
}

v1::MemoryStats Session::memory_stats() const {
  return ToProto(impl_->name(), impl_->allocator().Statistics());
}

v1::MemoryStats Session::AllMemoryStats() const {
  const MemoryStatistics statistics = impl_->allocator().Statistics();
  v1::MemoryStats stats = ToProto(impl_->name(), statistics);
  for (const auto& [name, number] : statistics.Named()) {
    (*stats.mutable_by_pytorch_name())[name] = number;
  }
  AddRecordings(impl_->device(), stats);
  return stats;
}

v1::MemorySnapshot Session::Snapshot(bool with_timeline) const {
  const MemorySnapshot snapshot = impl_->allocator().Snapshot();
  v1::MemorySnapshot proto = ToProto(impl_->name(), snapshot);
  if (with_timeline) AddTimeline(snapshot, proto);
  return proto;
}

std::string Session::MemorySummary() const {
  return impl_->allocator().Summary();
}

uint64_t Session::EmptyCache() {
  // A device that cannot be made current has no memory to return.
  if (!impl_->device().MakeCurrent().ok()) return 0;
  return impl_->allocator().EmptyCache();
}

void Session::ResetPeak() { impl_->allocator().ResetPeak(); }

absl::Status Session::SetMemoryFraction(double fraction) {
  CachingAllocator& allocator = impl_->allocator();
  const MemoryStatistics now = allocator.Statistics();
  const double limit =
      fraction * static_cast<double>(impl_->device().limit_bytes());
  // The allocator would accept such a limit and then refuse every request.
  if (fraction > 0 && static_cast<double>(now.allocated_bytes) > limit) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s has %u bytes in use, more than the %.0f bytes of a fraction of %g; "
        "%s holds most of them: end or unload that first",
        impl_->name(), now.allocated_bytes, limit, fraction,
        now.owners.empty() ? "nobody" : now.owners.front().label));
  }
  return allocator.SetFraction(fraction);
}

absl::Status Session::RecordMemoryHistory(uint64_t max_entries) {
  return impl_->allocator().RecordHistory(max_entries);
}

absl::StatusOr<MemoryDump> Session::DumpMemory() const {
  const std::string pickle =
      SnapshotPickle(impl_->allocator().Snapshot(),
                     impl_->options().device.index % kMostViewedDevices);
  ASSIGN_OR_RETURN(
      const WrittenBlob blob,
      WriteBlob(impl_->options().blob_dir, {absl::string_view(pickle)}));
  return MemoryDump{blob.sha256, blob.bytes};
}

v1::JobError ToJobError(const absl::Status& status, uint64_t step) {
  const absl::string_view text = status.message();
  const size_t mark = text.find(kHintMark);
  v1::JobError error;
  error.set_code(static_cast<int32_t>(status.code()));
  error.set_message(std::string(text.substr(0, mark)));
  if (mark != absl::string_view::npos) {
    error.set_hint(std::string(text.substr(mark + kHintMark.size())));
  }
  error.set_step(step);
  return error;
}

bool IsJobsOwnFault(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kUnimplemented:
      return true;
    default:
      return false;
  }
}

}  // namespace gpupool::engine
