#include "server/serving/model_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/limits.pb.h"
#include "scheduler/serve/batch_policy.h"
#include "server/serving/tensor/data_type.h"
#include "server/serving/tensor/slot_packing.h"
#include "server/serving/text/text_runner.h"

namespace gpupool::server {
namespace {

// Returns the format. The rank is limited by a slot's header.
absl::StatusOr<TensorFormat> MakeServedFormat(
    const v1::TensorSpec& spec, absl::Span<const SizedDimension> dimensions) {
  if (static_cast<uint32_t>(spec.shape_size()) > kMaxSlotRank) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", spec.name(), "' has ", spec.shape_size(),
                     " dimensions; at most ", kMaxSlotRank, " can be served"));
  }
  return MakeTensorFormat(spec, dimensions);
}

absl::StatusOr<std::vector<TensorFormat>> MakeFormats(
    const char* what,
    const google::protobuf::RepeatedPtrField<v1::TensorSpec>& specs,
    absl::Span<const SizedDimension> dimensions) {
  if (specs.empty() || specs.size() > static_cast<int>(kMaxSlotTensors)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model has ", specs.size(), " ", what,
                     "; models with 1 .. ", kMaxSlotTensors, " can be served"));
  }
  std::vector<TensorFormat> formats;
  for (const v1::TensorSpec& spec : specs) {
    ASSIGN_OR_RETURN(TensorFormat format, MakeServedFormat(spec, dimensions));
    formats.push_back(std::move(format));
  }
  return formats;
}

// Checks that all tensors have a batch dimension or none has.
absl::Status CheckBatched(const VersionFacts& facts) {
  for (const auto* formats : {&facts.inputs, &facts.outputs}) {
    for (const TensorFormat& format : *formats) {
      if (format.batched == facts.batched) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor '", format.name, "' of shape ", ShapeText(format),
          ": either all tensors of a model have a batch dimension or none"));
    }
  }
  return absl::OkStatus();
}

// Marks dimensions as padded: those with listed sizes, unless an input whose
// sizes follow from them has no padding element.
void SetPadding(const v1::OnnxModel& model, VersionFacts& facts) {
  for (SizedDimension& dimension : facts.dimensions) {
    dimension.padded = !dimension.sizes.empty();
  }
  for (TensorFormat& input : facts.inputs) {
    const auto pad = model.padding().find(input.name);
    const bool filled = pad != model.padding().end();
    if (filled) input.pad = ElementOf(HeldType(input.data_type), pad->second);
    for (const TensorFormat::Variable& variable : input.variable) {
      for (size_t d = 0; !filled && d < facts.dimensions.size(); ++d) {
        if (!variable.Follows(static_cast<int>(d))) continue;
        facts.dimensions[d].padded = false;
      }
    }
  }
}

// Gives outputs the names of their classes.
absl::Status SetLabels(const v1::ServingOptions& serving, VersionFacts& facts) {
  for (const v1::OutputLabels& labels : serving.labels()) {
    const auto output = std::find_if(
        facts.outputs.begin(), facts.outputs.end(),
        [&](const auto& format) { return format.name == labels.output(); });
    if (output == facts.outputs.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("serving.labels has the output '", labels.output(),
                       "', which the model does not have"));
    }
    output->labels = std::make_shared<const std::vector<std::string>>(
        labels.labels().begin(), labels.labels().end());
  }
  return absl::OkStatus();
}

// Makes the facts those of a model of texts.
absl::Status SetTexts(const v1::ModelVersion& version, VersionFacts& facts) {
  if (version.serving().has_sequences()) {
    return absl::InvalidArgumentError(
        "a model of texts serves no sequences; remove sequence_batching");
  }
  const v1::TextProgram& program = version.plan().text();
  if (program.outputs_size() != static_cast<int>(facts.outputs.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the program of texts has ", program.outputs_size(),
                     " outputs, the model ", facts.outputs.size()));
  }
  ASSIGN_OR_RETURN(
      facts.texts,
      TextRunner::Create(program, static_cast<int>(facts.inputs.size())));
  return absl::OkStatus();
}

// Refuses texts that a device would get.
absl::Status RefuseTexts(const VersionFacts& facts) {
  for (const auto* formats : {&facts.inputs, &facts.outputs}) {
    for (const TensorFormat& format : *formats) {
      if (format.data_type != v1::STRING) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", format.name,
                       "' has texts, but the model has no program for them"));
    }
  }
  return absl::OkStatus();
}

uint32_t MaxBatchSize(const v1::ServingOptions& serving) {
  if (serving.max_batch_size() == 0) return v1::DEFAULT_SERVED_ROWS;
  return std::min(serving.max_batch_size(), uint32_t{v1::MAX_SERVED_ROWS});
}

std::vector<TensorFormat> Chosen(const std::vector<TensorFormat>& formats,
                                 const std::vector<size_t>& indices) {
  std::vector<TensorFormat> chosen;
  for (const size_t index : indices) chosen.push_back(formats[index]);
  return chosen;
}

// Hides the tensors that clients do not see from the facts.
absl::Status SetSequences(const v1::SequenceOptions& options,
                          VersionFacts& facts) {
  ASSIGN_OR_RETURN(SequencePlan plan,
                   MakeSequencePlan({.label = facts.label,
                                     .inputs = facts.inputs,
                                     .outputs = facts.outputs,
                                     .max_batch_size = facts.max_batch_size},
                                    options));
  facts.inputs = Chosen(plan.inputs, plan.sent);
  facts.outputs = Chosen(plan.outputs, plan.answered);
  facts.sequences = std::make_shared<const SequencePlan>(std::move(plan));
  facts.takes_sequences = true;
  return absl::OkStatus();
}

// Finds the outputs whose rows become responses.
absl::Status SetDecoupled(const v1::Plan& plan, VersionFacts& facts) {
  std::string loop;
  for (int i = 0; i < plan.outputs_size(); ++i) {
    const v1::TensorSpec& output = plan.outputs(i);
    if (output.loop().empty()) continue;
    if (!loop.empty() && output.loop() != loop) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a decoupled version answers with the iterations of one Loop, but '",
          loop, "' and '", output.loop(),
          "' both give outputs of the model; remove the outputs of one of "
          "them, or serve the model without decoupled"));
    }
    loop = output.loop();
    facts.stacked.push_back(static_cast<size_t>(i));
  }
  if (facts.stacked.empty()) {
    return absl::InvalidArgumentError(
        "a decoupled version answers with the iterations of a Loop, and no "
        "output of the model is a scan output of a Loop; serve it without "
        "decoupled, or make the scan output itself an output of the model");
  }
  if (facts.batched) {
    return absl::InvalidArgumentError(
        "a decoupled version has no batch dimension, but the first dimension "
        "of its tensors is one; give that dimension a size");
  }
  facts.decoupled = true;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<VersionFacts> MakeVersionFacts(const v1::ModelVersion& version) {
  VersionFacts facts;
  facts.dimensions = SizedDimensions(version.spec());
  ASSIGN_OR_RETURN(facts.inputs, MakeFormats("inputs", version.plan().inputs(),
                                             facts.dimensions));
  ASSIGN_OR_RETURN(
      facts.outputs,
      MakeFormats("outputs", version.plan().outputs(), facts.dimensions));
  RETURN_IF_ERROR(SetLabels(version.serving(), facts));
  SetPadding(version.spec().onnx(), facts);
  facts.batched = facts.inputs[0].batched;
  RETURN_IF_ERROR(CheckBatched(facts));
  facts.id = version.id();
  facts.model = version.model();
  facts.version = version.version();
  facts.tenant = version.tenant();
  facts.label =
      absl::StrCat("'", version.model(), "' version ", version.version());
  const v1::ServingOptions& serving = version.serving();
  // Without a batch dimension, requests cannot be joined.
  facts.max_batch_size = facts.batched ? MaxBatchSize(serving) : 1;
  facts.max_queue_delay =
      absl::Microseconds(serving.max_queue_delay_microseconds());
  facts.max_queue_size = serving.max_queue_size() == 0
                             ? scheduler::kDefaultMaxQueueSize
                             : serving.max_queue_size();
  facts.computes_alone = version.plan().computes_alone();
  if (version.plan().has_text()) {
    RETURN_IF_ERROR(SetTexts(version, facts));
  } else {
    RETURN_IF_ERROR(RefuseTexts(facts));
  }
  facts.bytes = version.plan().inference().peak();
  if (serving.has_sequences()) {
    RETURN_IF_ERROR(SetSequences(serving.sequences(), facts));
  }
  if (serving.decoupled()) {
    RETURN_IF_ERROR(SetDecoupled(version.plan(), facts));
  }
  return facts;
}

absl::Status CheckServable(const v1::ModelVersion& version,
                           uint64_t slot_bytes) {
  ASSIGN_OR_RETURN(const VersionFacts facts, MakeVersionFacts(version));
  // Texts are never in a slot.
  if (facts.texts != nullptr) return absl::OkStatus();
  // A batch takes as many rows as fit into a slot, so one must fit.
  const uint64_t bytes =
      PackedBytes({facts.slot_inputs(), facts.slot_outputs()}, 1);
  if (bytes <= slot_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("one row of its inputs and outputs has ", bytes,
                   " bytes, a slot of the server has ", slot_bytes,
                   "; start the server with --slot-bytes ", bytes, " or more"));
}

// ---------------------------------------------------------- ServedVersion

ServedVersion::ServedVersion(VersionFacts facts,
                             std::shared_ptr<Batcher> batcher)
    : facts_(std::move(facts)), executor_(batcher), batcher_(batcher.get()) {}

ServedVersion::ServedVersion(VersionFacts facts,
                             std::shared_ptr<CallExecutor> executor,
                             Batcher* batcher)
    : facts_(std::move(facts)),
      executor_(std::move(executor)),
      batcher_(batcher) {}

ServedVersion::ServedVersion(VersionFacts facts,
                             std::shared_ptr<CallExecutor> executor)
    : facts_(std::move(facts)),
      executor_(std::move(executor)),
      batcher_(nullptr) {}

ServedVersion::ServedVersion(VersionFacts facts,
                             std::shared_ptr<CallExecutor> executor,
                             std::shared_ptr<const EnsembleSpec> ensemble)
    : facts_(std::move(facts)),
      executor_(std::move(executor)),
      batcher_(nullptr),
      ensemble_(std::move(ensemble)) {}

ServedVersion::~ServedVersion() {
  std::function<void()> callback;
  {
    absl::MutexLock lock(&mutex_);
    callback = std::move(last_handle_gone_);
  }
  // Without the lock, because the callback may take others.
  if (callback) callback();
}

std::string ServedVersion::device() const {
  absl::MutexLock lock(&mutex_);
  return device_;
}

void ServedVersion::set_device(std::string device) {
  absl::MutexLock lock(&mutex_);
  device_ = std::move(device);
}

void ServedVersion::OnLastHandleGone(std::function<void()> callback) {
  absl::MutexLock lock(&mutex_);
  last_handle_gone_ = std::move(callback);
}

// ---------------------------------------------------------- ModelRegistry

void ModelRegistry::Add(VersionHandle version) {
  const VersionFacts& facts = version->facts();
  VersionHandle replaced;  // let go without the lock
  absl::MutexLock lock(&mutex_);
  Entry& entry = models_[facts.model][facts.version];
  if (entry.handle != nullptr) ids_.erase(entry.handle->facts().id);
  ids_[facts.id] = {facts.model, facts.version};
  replaced = std::exchange(entry.handle, std::move(version));
  entry.ready = true;
}

ModelRegistry::Entry* ModelRegistry::FindEntry(uint64_t id) {
  const auto it = ids_.find(id);
  if (it == ids_.end()) return nullptr;
  // Finds an entry always, because ids_ and models_ change together.
  return &models_[it->second.first][it->second.second];
}

VersionHandle ModelRegistry::FindById(uint64_t id) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto place = ids_.find(id);
  if (place == ids_.end()) return nullptr;
  const auto& [model, version] = place->second;
  return models_.find(model)->second.find(version)->second.handle;
}

void ModelRegistry::SetReady(uint64_t id, bool ready) {
  absl::MutexLock lock(&mutex_);
  if (Entry* entry = FindEntry(id)) entry->ready = ready;
}

void ModelRegistry::Suspend(uint64_t id) { SetReady(id, false); }

void ModelRegistry::Resume(uint64_t id) { SetReady(id, true); }

void ModelRegistry::Drain(uint64_t id, std::function<void()> drained) {
  VersionHandle handle;
  {
    absl::MutexLock lock(&mutex_);
    const auto place = ids_.find(id);
    if (place != ids_.end()) {
      const auto& [model, version] = place->second;
      const auto versions = models_.find(model);
      const auto entry = versions->second.find(version);
      handle = std::move(entry->second.handle);
      versions->second.erase(entry);
      if (versions->second.empty()) models_.erase(versions);
      ids_.erase(place);
    }
  }
  if (handle == nullptr) {
    drained();
    return;
  }
  // `handle` is the registry's own; when it goes at the end of this function
  // `drained` may run.
  handle->OnLastHandleGone(std::move(drained));
  handle->executor().Drain();
}

VersionHandle ModelRegistry::FindNewest(absl::string_view model) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto versions = models_.find(model);
  if (versions == models_.end()) return nullptr;
  for (auto it = versions->second.rbegin(); it != versions->second.rend();
       ++it) {
    // The map is ordered by version, so the first ready one from the end is the
    // newest.
    if (it->second.ready) return it->second.handle;
  }
  return nullptr;
}

VersionHandle ModelRegistry::Find(absl::string_view model,
                                  uint64_t version) const {
  absl::ReaderMutexLock lock(&mutex_);
  const auto versions = models_.find(model);
  if (versions == models_.end()) return nullptr;
  const auto it = versions->second.find(version);
  if (it == versions->second.end() || !it->second.ready) return nullptr;
  return it->second.handle;
}

std::vector<VersionHandle> ModelRegistry::List(absl::string_view model) const {
  std::vector<VersionHandle> handles;
  {
    absl::ReaderMutexLock lock(&mutex_);
    for (const auto& [name, versions] : models_) {
      if (!model.empty() && name != model) continue;
      for (const auto& [number, entry] : versions) {
        if (entry.ready) handles.push_back(entry.handle);
      }
    }
  }
  // Without the lock; models_ is a hash map, so that names are sorted here.
  std::stable_sort(handles.begin(), handles.end(),
                   [](const VersionHandle& a, const VersionHandle& b) {
                     return a->facts().model < b->facts().model;
                   });
  return handles;
}

std::vector<VersionHandle> ModelRegistry::All() const {
  absl::ReaderMutexLock lock(&mutex_);
  std::vector<VersionHandle> handles;
  for (const auto& [name, versions] : models_) {
    for (const auto& [number, entry] : versions) {
      handles.push_back(entry.handle);
    }
  }
  return handles;
}

}  // namespace gpupool::server
