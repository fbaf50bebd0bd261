#include "engine/session.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/backends/cpu/cpu_backend.h"
#include "engine/base/status_macros.h"
#include "engine/data/dataset_reader.h"
#include "engine/loaded_model_impl.h"
#include "engine/memory/caching_allocator.h"
#include "engine/memory/host_page_source.h"
#include "engine/serving/inference_programs.h"
#include "engine/session_convert.h"
#include "engine/train/device_context.h"
#include "engine/train/host_weights.h"
#include "engine/train/job_check.h"
#include "engine/train/programs.h"
#include "engine/train/training_run.h"

namespace gpupool::engine {
namespace {

constexpr absl::string_view kHintMark = "; hint: ";

uint64_t MachineMemoryBytes() {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_bytes = sysconf(_SC_PAGESIZE);
  return static_cast<uint64_t>(std::max(pages, 1L)) *
         static_cast<uint64_t>(std::max(page_bytes, 1L));
}

// "model name" of the first processor; empty where the system does not say.
std::string ProcessorModel() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!absl::StartsWith(line, "model name")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, ": ");
    return parts.size() > 1 ? parts[1] : "";
  }
  return "";
}

void AddWarning(const std::string& warning, v1::Plan& plan) {
  const auto& known = plan.warnings();
  if (std::find(known.begin(), known.end(), warning) != known.end()) return;
  plan.add_warnings(warning);
}

void DescribeModel(const InferencePrograms& programs, const ServedSizes& served,
                   v1::Plan& plan) {
  uint64_t flops = 0;
  for (const LayerInfo& info : programs.layers) {
    v1::LayerPlan* layer = plan.add_layers();
    layer->set_name(info.name);
    layer->set_kind(info.kind);
    for (int64_t dimension : info.output_shape.dims()) {
      layer->add_output_shape(dimension);
    }
    layer->set_parameters(info.parameters);
    layer->set_flops(info.flops);
    flops += info.flops;
  }
  plan.set_parameters(programs.parameters);
  plan.set_inference_flops_per_example(flops);
  *plan.mutable_inference() = ToProto(BytesOf(programs));
  for (const ServedPort& port : programs.inputs) {
    *plan.add_inputs() = ToProto(port, programs.batched, served);
  }
  for (const ServedPort& port : programs.outputs) {
    *plan.add_outputs() = ToProto(port, programs.batched, served);
  }
  for (const std::string& warning : programs.warnings) {
    AddWarning(warning, plan);
  }
}

// Zeros stand for the defaults.
InferenceOptions OptionsOf(const ServingLimits& limits) {
  InferenceOptions options{.max_batch_size = limits.max_batch_size,
                           .max_programs = limits.max_programs};
  if (options.max_batch_size == 0) {
    options.max_batch_size = kDefaultServingBatch;
  }
  if (options.max_programs == 0) options.max_programs = kDefaultServingPrograms;
  return options;
}

// The blob as the weights of a checkpoint.
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
  explicit Impl(SessionOptions options)
      : options_(std::move(options)),
        allocator_(ToString(options_.device), options_.memory_limit_bytes,
                   &source_),
        backend_(options_.threads),
        description_(ProcessorModel()) {}

  const SessionOptions& options() const { return options_; }
  std::string device_name() const { return ToString(options_.device); }
  bool is_meta() const { return options_.device.type == DeviceType::kMeta; }
  CachingAllocator& allocator() { return allocator_; }
  const std::string& description() const { return description_; }
  DeviceBackend* backend() { return &backend_; }
  DeviceContext context() {
    return {&backend_, &allocator_, options_.blob_dir};
  }
  absl::StatusOr<std::shared_ptr<const ModelSource>> Open(
      const v1::ModelSpec& spec) const {
    return ModelSource::Open(spec, options_.blob_dir);
  }
  absl::Status RefuseMeta(absl::string_view what) const {
    if (!is_meta()) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat(
        "the meta device has no memory and cannot ", what, "; it only plans"));
  }

 private:
  const SessionOptions options_;
  HostPageSource source_;
  CachingAllocator allocator_;
  CpuBackend backend_;
  const std::string description_;
};

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() = default;

absl::StatusOr<std::unique_ptr<Session>> Session::Create(
    SessionOptions options) {
  const DeviceType type = options.device.type;
  if (type != DeviceType::kCpu && type != DeviceType::kMeta) {
    return absl::UnimplementedError(absl::StrCat(
        "device ", ToString(options.device),
        " cannot be driven by this build; cpu devices and meta can"));
  }
  if (options.threads < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("threads is ", options.threads, "; at least 1 is needed"));
  }
  if (options.memory_limit_bytes == 0) {
    options.memory_limit_bytes = MachineMemoryBytes();
  }
  return std::unique_ptr<Session>(
      new Session(std::make_unique<Impl>(std::move(options))));
}

absl::StatusOr<TrainingPlan> Session::PlanTraining(const v1::JobSpec& spec,
                                                   const v1::Dataset& dataset) {
  ASSIGN_OR_RETURN(const auto source, impl_->Open(spec.model()));
  ASSIGN_OR_RETURN(
      const TrainingPrograms programs,
      CompileTraining(*source, spec, FactsOf(dataset), impl_->backend()));
  InferenceOptions options =
      OptionsOf({.max_batch_size = spec.publish().serving().max_batch_size()});
  options.input_scaling =
      spec.data().scaling().rule_case() != v1::Scaling::RULE_NOT_SET;
  ASSIGN_OR_RETURN(const InferencePrograms inference,
                   CompileInference(*source, options, impl_->backend()));
  TrainingPlan result;
  result.total_steps = programs.length.total_steps;
  DescribeModel(inference, source->served(), result.plan);
  for (const std::string& warning : programs.warnings) {
    AddWarning(warning, result.plan);
  }
  result.plan.set_training_flops_per_step(DevicesOf(spec) *
                                          StepFlopsOf(programs));
  *result.plan.mutable_training() = ToProto(BytesOf(programs));
  return result;
}

absl::StatusOr<v1::Plan> Session::PlanInference(const v1::ModelSpec& spec,
                                                const ServingLimits& limits) {
  ASSIGN_OR_RETURN(const auto source, impl_->Open(spec));
  ASSIGN_OR_RETURN(
      const InferencePrograms programs,
      CompileInference(*source, OptionsOf(limits), impl_->backend()));
  v1::Plan plan;
  DescribeModel(programs, source->served(), plan);
  return plan;
}

absl::StatusOr<ImportedModel> Session::ImportModel(
    const v1::ModelSpec& spec, const std::string& weights_sha256,
    const ServingLimits& limits) {
  ASSIGN_OR_RETURN(const auto source, impl_->Open(spec));
  ASSIGN_OR_RETURN(
      const InferencePrograms programs,
      CompileInference(*source, OptionsOf(limits), impl_->backend()));
  ImportedModel imported;
  DescribeModel(programs, source->served(), imported.plan);
  const std::string& blob_dir = impl_->options().blob_dir;
  Manifest manifest = {.model = spec, .files = ModelFiles(spec)};
  if (!weights_sha256.empty()) {
    ASSIGN_OR_RETURN(CheckpointFile weights,
                     CheckWeights(blob_dir, weights_sha256, programs.layout));
    manifest.files.push_back(std::move(weights));
  } else if (!spec.has_onnx()) {
    return absl::InvalidArgumentError(
        "a model of layers comes with its weights as a safetensors file; send "
        "them in chunks");
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
  ASSIGN_OR_RETURN(const Table table,
                   ReadDataset(layout, files, impl_->options().blob_dir, {}));
  return DatasetFacts{table.rows, table.feature_shape, table.label_facts};
}

absl::StatusOr<std::unique_ptr<TrainingRun>> Session::StartTraining(
    const TrainingRequest& request) {
  RETURN_IF_ERROR(impl_->RefuseMeta("train"));
  ASSIGN_OR_RETURN(std::unique_ptr<TrainingRun::Impl> run,
                   TrainingRun::Impl::Create(impl_->context(), request));
  return std::make_unique<TrainingRun>(std::move(run));
}

absl::StatusOr<std::unique_ptr<LoadedModel>> Session::LoadModel(
    const LoadRequest& request) {
  RETURN_IF_ERROR(impl_->RefuseMeta("serve"));
  ASSIGN_OR_RETURN(std::unique_ptr<LoadedModel::Impl> model,
                   LoadedModel::Impl::Create(impl_->context(), request));
  return std::make_unique<LoadedModel>(std::move(model));
}

v1::Device Session::info() const {
  v1::Device info;
  info.set_name(impl_->device_name());
  info.set_kind(std::string(DeviceTypeName(impl_->options().device.type)));
  info.set_description(impl_->description());
  info.set_limit_bytes(impl_->options().memory_limit_bytes);
  info.set_threads(static_cast<uint32_t>(impl_->options().threads));
  *info.mutable_memory() = memory_stats();
  return info;
}

v1::MemoryStats Session::memory_stats() const {
  return ToProto(impl_->device_name(), impl_->allocator().Statistics());
}

v1::MemorySnapshot Session::Snapshot() const {
  return ToProto(impl_->device_name(), impl_->allocator().Snapshot());
}

std::string Session::MemorySummary() const {
  return impl_->allocator().Summary();
}

uint64_t Session::EmptyCache() { return impl_->allocator().EmptyCache(); }

void Session::ResetPeak() { impl_->allocator().ResetPeak(); }

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
