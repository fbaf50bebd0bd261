#include "engine/loaded_model.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"
#include "engine/loaded_text.h"
#include "engine/model/precision.h"
#include "engine/runtime/weight_view.h"
#include "engine/serving/stage_run.h"
#include "engine/session_convert.h"
#include "engine/tensor/convert.h"
#include "engine/train/blob_file.h"
#include "engine/train/initial_weights.h"

namespace gpupool::engine {
namespace {

struct GivenBytes {
  uint32_t rows;
  uint64_t row_bytes;
  uint64_t found;
};

// Checks that a tensor has exactly the bytes of its rows.
absl::Status CheckBytes(absl::string_view what, const std::string& name,
                        const GivenBytes& bytes) {
  const auto [rows, row_bytes, found] = bytes;
  if (found == rows * row_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      what, " '", name, "' has ", found, " bytes; ", Counted(rows, "row"),
      " of ", row_bytes, " bytes need ", rows * row_bytes));
}

// Returns the specs of ports.
std::vector<v1::TensorSpec> DescribePorts(const std::vector<ServedPort>& ports,
                                          const InferencePrograms& planned,
                                          const ServedSizes& served) {
  std::vector<v1::TensorSpec> specs;
  for (const ServedPort& port : ports) {
    specs.push_back(ToProto(port, planned.batched, served));
  }
  return specs;
}

// Returns whether the output's shape follows from the sizes in a way that only
// programs know.
bool IsOpen(const ServedPort& port) {
  return std::any_of(port.variable.begin(), port.variable.end(),
                     [](const VariableAxis& axis) { return !axis.IsKnown(); });
}

// Returns elements between -0.5 and 0.5 of a floating type, zeros of others:
// any number may be wrong for an index.
std::vector<std::byte> RandomBytes(DType dtype, uint64_t bytes) {
  std::vector<std::byte> random(bytes);
  if (!IsFloating(dtype)) return random;
  std::vector<double> numbers(bytes / SizeOf(dtype));
  uint32_t state = 1;
  for (double& number : numbers) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes, 7.1
    number = state / 4294967296.0 - 0.5;
  }
  WriteFromDoubles(dtype, numbers, 1, random.data());
  return random;
}

}  // namespace

LoadedModel::LoadedModel(const DeviceContext& device,
                         const LoadRequest& request)
    : device_(device),
      request_(request),
      holder_(absl::StrCat("model ", request.name), device.allocator) {}

absl::StatusOr<std::unique_ptr<ServedModel>> LoadedModel::Create(
    const DeviceContext& device, const LoadRequest& request) {
  std::unique_ptr<LoadedModel> model(new LoadedModel(device, request));
  ASSIGN_OR_RETURN(model->manifest_,
                   ReadManifest(device.blob_dir, request.manifest_sha256));
  ASSIGN_OR_RETURN(const auto source,
                   ModelSource::Open(model->manifest_.model, device.blob_dir));
  if (source->text_plan() != nullptr) {
    return std::make_unique<LoadedText>(*source->text_plan());
  }
  RETURN_IF_ERROR(model->Plan(*source));
  RETURN_IF_ERROR(model->LoadPrograms(*source));
  return model;
}

absl::Status LoadedModel::Plan(const ModelSource& source) {
  const uint32_t max_programs = request_.max_programs == 0
                                    ? uint32_t{v1::DEFAULT_SERVED_PROGRAMS}
                                    : request_.max_programs;
  options_ = {.input_scaling = manifest_.input_scaling,
              .max_batch_size = request_.max_batch_size,
              .max_programs = max_programs,
              .compute = ComputeType(request_.precision)};
  options_.kernels.tensor_float32 = AllowsTensorFloat32(request_.precision);
  options_.kernels.benchmark = request_.benchmark;
  ASSIGN_OR_RETURN(planned_,
                   CompileInference(source, options_, device_.backend));
  served_ = source.served();
  for (const ServedDimension& dimension : served_.dimensions) {
    names_.push_back(dimension.name);
  }
  inputs_ = DescribePorts(planned_.inputs, planned_, source.served());
  outputs_ = DescribePorts(planned_.outputs, planned_, source.served());
  limit_bytes_ = request_.limit_bytes;
  // Programs that are made later may not take more than was planned.
  if (limit_bytes_ == 0 && planned_.max_programs > 0) {
    limit_bytes_ = BytesOf(planned_).peak;
  }
  return holder_.SetLimit(limit_bytes_);
}

absl::Status LoadedModel::LoadPrograms(const ModelSource& source) {
  arena_bytes_ = ArenaBytesOf(planned_);
  outside_bytes_ = BytesOf(planned_).peak - arena_bytes_;
  ASSIGN_OR_RETURN(
      weights_,
      WeightStore::Create(planned_.layout, holder_.name(), device_.allocator,
                          device_.backend->transfer()));
  ASSIGN_OR_RETURN(arena_, device_.allocator->Allocate(
                               arena_bytes_, {holder_.name(), "arena"}));
  RETURN_IF_ERROR(SetWeights(source));
  // The bytes that stages pass on are taken once, so that the peak has them
  // before the first request.
  RETURN_IF_ERROR(
      device_.allocator
          ->Allocate(planned_.passed_bytes, {holder_.name(), "passed on"})
          .status());
  std::vector<InferenceProgram> programs = std::move(planned_.programs);
  planned_.programs.clear();
  // The programs for batches come first. Those above the bound are
  // made again on demand.
  if (planned_.max_programs > 0 && programs.size() > planned_.max_programs) {
    programs.erase(programs.begin() + planned_.max_programs, programs.end());
  }
  cache_.emplace(planned_.max_programs > 0 ? planned_.max_programs
                                           : programs.size());
  for (InferenceProgram& program : programs) {
    RETURN_IF_ERROR(Insert(std::move(program)).status());
  }
  return absl::OkStatus();
}

absl::Status LoadedModel::SetWeights(const ModelSource& source) {
  if (manifest_.FindFile("weights") == nullptr &&
      FilesHaveWeights(manifest_.model)) {
    return SetInitialWeights(source, planned_.persistents, manifest_.seed,
                             *weights_);
  }
  ASSIGN_OR_RETURN(const WeightView view, WeightView::OfNew(*weights_));
  std::vector<TensorBytes> tensors;
  for (const WeightEntry& entry : view.layout().entries()) {
    TensorBytes& tensor = tensors.emplace_back();
    tensor.facts = {entry.name, entry.dtype, entry.shape};
    tensor.bytes = view.bytes_of(entry);
    // The file has this weight in float32, the store in 16 bits.
    if (!planned_.narrow.contains(entry.name)) continue;
    tensor.facts.dtype = DType::kFloat32;
    tensor.rounded_to = entry.dtype;
  }
  RETURN_IF_ERROR(ReadTensors(device_.blob_dir, manifest_, "weights", tensors));
  return view.Commit();
}

absl::StatusOr<ProgramCache::Entry*> LoadedModel::Insert(
    InferenceProgram program) {
  // The shared arena cannot grow: the addresses of other programs point into
  // it.
  if (program.program.bytes().arena > arena_bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat(
        request_.name, " needs ", program.program.bytes().arena,
        " bytes to run for these sizes, more than the ", arena_bytes_,
        planned_.staged
            ? " that were planned, as computed values lead to other sizes "
              "than those of the plan"
            : " of its largest ones; upload it with a list of sizes, as in "
              "`--dimension NAME=64,128`"));
  }
  // Old programs are removed before the executor allocates, so that their
  // residents do not push the new ones over the limit.
  cache_->MakeRoom();
  MakeRoomFor(program.program);
  std::vector<std::string> passed;
  if (planned_.staged) {
    std::vector<std::string> names;
    for (const v1::TensorSpec& spec : inputs_) names.push_back(spec.name());
    passed = PassedNames(program.program, program.stage_end.get(), names);
  }
  ASSIGN_OR_RETURN(
      std::unique_ptr<Executor> executor,
      Executor::Create(std::move(program.program),
                       {.weights = *weights_,
                        .arena = absl::MakeSpan(arena_.data(), arena_bytes_),
                        .holder = holder_.name(),
                        .allocator = device_.allocator},
                       passed));
  RETURN_IF_ERROR(executor->Load());
  return cache_->Add({.key = std::move(program.key),
                      .outputs = std::move(program.outputs),
                      .stage_end = std::move(program.stage_end),
                      .executor = std::move(executor)});
}

void LoadedModel::MakeRoomFor(const Program& program) {
  const auto& residents = program.bytes().residents;
  // The bytes that later stages will pass on must fit, too.
  const uint64_t passed =
      planned_.passed_bytes - std::min(planned_.passed_bytes, passed_bytes_);
  while (limit_bytes_ > 0 && device_.allocator->HolderBytes(holder_.name()) +
                                     weights_->MissingBytes(residents) +
                                     passed >
                                 limit_bytes_) {
    if (!cache_->RemoveOldest()) return;
  }
}

absl::StatusOr<ProgramCache::Entry*> LoadedModel::FindOrMake(
    const ProgramKey& key, InferenceAnswer* answer) {
  if (ProgramCache::Entry* entry = cache_->Find(key)) return entry;
  ASSIGN_OR_RETURN(const auto source, OpenSource());
  if (planned_.staged) opened_ = source;
  ASSIGN_OR_RETURN(InferenceProgram program,
                   CompileProgram(*source, planned_, key, device_.backend));
  const uint64_t evicted = cache_->evictions();
  absl::StatusOr<ProgramCache::Entry*> entry = Insert(std::move(program));
  if (answer != nullptr) {
    ++answer->compiled;
    answer->evicted += static_cast<uint32_t>(cache_->evictions() - evicted);
  }
  return entry;
}

absl::StatusOr<std::shared_ptr<const ModelSource>> LoadedModel::OpenSource()
    const {
  if (opened_ != nullptr) return opened_;
  // Opens the model again; keeping it open would hold the file's weights in
  // memory a second time.
  return ModelSource::Open(manifest_.model, device_.blob_dir);
}

absl::StatusOr<uint64_t> LoadedModel::RowBytes(
    const ServedPort& port, absl::Span<const int64_t> sizes) const {
  uint64_t bytes = SizeOf(port.port.dtype);
  size_t next = 0;
  for (int axis = 0; axis < port.port.shape.rank(); ++axis) {
    int64_t size = port.port.shape[axis];
    if (next < port.variable.size() && port.variable[next].axis == axis) {
      ASSIGN_OR_RETURN(size, port.variable[next++].Size(served_, sizes));
    }
    bytes *= static_cast<uint64_t>(size);
  }
  return bytes;
}

absl::Status LoadedModel::CheckSizes(const InferenceBatch& batch) const {
  if (batch.rows < 1 || batch.rows > planned_.max_batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", batch.rows, " rows; ", request_.name,
                     " takes 1 to ", planned_.max_batch_size));
  }
  const std::vector<ServedDimension>& dimensions = served_.dimensions;
  if (batch.sizes.size() != dimensions.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(batch.sizes.size(), " sizes came; ", request_.name,
                     " has ", dimensions.size(), " dimensions of several"));
  }
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (dimensions[i].Takes(batch.sizes[i])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("dimension '", dimensions[i].name, "' is ", batch.sizes[i],
                     "; ", request_.name, " takes ", dimensions[i].Text()));
  }
  return absl::OkStatus();
}

absl::Status LoadedModel::CheckBatch(const InferenceBatch& batch) const {
  RETURN_IF_ERROR(CheckSizes(batch));
  if (batch.inputs.size() != inputs_.size() ||
      batch.outputs.size() != outputs_.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat(batch.inputs.size(), " inputs and ", batch.outputs.size(),
                     " outputs came; ", request_.name, " has ", inputs_.size(),
                     " and ", outputs_.size()));
  }
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    ASSIGN_OR_RETURN(const uint64_t row_bytes,
                     RowBytes(planned_.inputs[i], batch.sizes));
    RETURN_IF_ERROR(CheckBytes("input", inputs_[i].name(),
                               {.rows = batch.rows,
                                .row_bytes = row_bytes,
                                .found = batch.inputs[i].size()}));
  }
  for (size_t i = 0; i < batch.outputs.size(); ++i) {
    if (IsOpen(planned_.outputs[i])) continue;
    ASSIGN_OR_RETURN(const uint64_t row_bytes,
                     RowBytes(planned_.outputs[i], batch.sizes));
    RETURN_IF_ERROR(CheckBytes("output", outputs_[i].name(),
                               {.rows = batch.rows,
                                .row_bytes = row_bytes,
                                .found = batch.outputs[i].size()}));
  }
  return absl::OkStatus();
}

int64_t LoadedModel::BatchFor(uint32_t rows) const {
  // Rows that fill up a bucket must not influence the others.
  if (planned_.computes_alone) return rows;
  const std::vector<int64_t> buckets = BatchBuckets(planned_.max_batch_size);
  return *std::lower_bound(buckets.begin(), buckets.end(), int64_t{rows});
}

ProgramKey LoadedModel::KeyOf(const InferenceBatch& batch) const {
  ProgramKey key;
  key.batch = BatchFor(batch.rows);
  key.sizes.assign(batch.sizes.begin(), batch.sizes.end());
  for (size_t i = 0; i < planned_.inputs.size(); ++i) {
    if (!planned_.inputs[i].bound) continue;
    // Bound inputs are part of the program, so their bytes are part of its key.
    key.bound.append(reinterpret_cast<const char*>(batch.inputs[i].data()),
                     batch.inputs[i].size());
  }
  return key;
}

LoadedModel::HostInputs LoadedModel::InputsOf(
    const InferenceBatch& batch, const ProgramCache::Entry& entry) const {
  HostInputs inputs;
  const Graph& graph = entry.executor->program().graph();
  for (size_t i = 0; i < batch.inputs.size(); ++i) {
    // A program reads no input without elements.
    if (planned_.inputs[i].bound || batch.inputs[i].empty()) continue;
    // A stage has only the inputs that it reads.
    if (planned_.staged && graph.FindValue(inputs_[i].name()) == nullptr) {
      continue;
    }
    inputs.push_back({inputs_[i].name(), batch.inputs[i]});
  }
  return inputs;
}

absl::StatusOr<LoadedModel::HostOutputs> LoadedModel::OutputsOf(
    const InferenceBatch& batch, const ProgramCache::Entry& entry,
    InferenceAnswer* answer) const {
  HostOutputs outputs;
  for (size_t i = 0; i < batch.outputs.size(); ++i) {
    const std::string& name = outputs_[i].name();
    std::vector<int64_t> shape(entry.outputs[i].dims().begin(),
                               entry.outputs[i].dims().end());
    uint64_t bytes = entry.outputs[i].bytes(planned_.outputs[i].port.dtype);
    if (planned_.batched) {
      // The program ran a whole bucket; only the rows of the request are
      // copied.
      bytes = bytes / static_cast<uint64_t>(entry.key.batch) * batch.rows;
      shape[0] = batch.rows;
    }
    // The span was sized by the plan; other bound numbers may need more.
    if (bytes > batch.outputs[i].size()) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "output '", name, "' has ", bytes, " bytes for these sizes, ",
          "more than the ", batch.outputs[i].size(), " that were planned; ",
          planned_.staged ? "computed values lead to other sizes than those of "
                            "the plan"
                          : "upload the model with larger numbers to plan "
                            "with"));
    }
    if (bytes > 0) outputs.push_back({name, batch.outputs[i].first(bytes)});
    if (answer != nullptr) answer->shapes.push_back(std::move(shape));
  }
  return outputs;
}

absl::Status LoadedModel::Infer(const InferenceBatch& batch,
                                InferenceAnswer* answer) {
  RETURN_IF_ERROR(CheckBatch(batch));
  if (planned_.staged) {
    const absl::Status status = InferInStages(batch, answer);
    opened_ = nullptr;
    passed_bytes_ = 0;
    return status;
  }
  ASSIGN_OR_RETURN(ProgramCache::Entry* const entry,
                   FindOrMake(KeyOf(batch), answer));
  // Numbers of bound inputs may change even the number of outputs.
  if (entry->outputs.size() != batch.outputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        request_.name, " has ", entry->outputs.size(), " outputs for these ",
        "numbers of its bound inputs, not ", batch.outputs.size()));
  }
  ASSIGN_OR_RETURN(const HostOutputs outputs, OutputsOf(batch, *entry, answer));
  return entry->executor->RunOn(InputsOf(batch, *entry), outputs);
}

absl::Status LoadedModel::CheckProfile(uint32_t rows) const {
  if (profiled_.has_value()) {
    return absl::FailedPreconditionError(absl::StrCat(
        request_.name, " is being profiled already; try again later"));
  }
  if (rows > planned_.max_batch_size) {
    return absl::InvalidArgumentError(
        absl::StrCat("a batch of ", rows, " rows; ", request_.name,
                     " takes 1 to ", planned_.max_batch_size));
  }
  const bool bound =
      std::any_of(planned_.inputs.begin(), planned_.inputs.end(),
                  [](const ServedPort& port) { return port.bound; });
  if (planned_.staged || bound) {
    return absl::UnimplementedError(absl::StrCat(
        request_.name,
        planned_.staged ? " runs in stages, because its execution depends on "
                          "computed values"
                        : " has shapes that depend on numbers of inputs",
        "; only models of one program can be profiled"));
  }
  return absl::OkStatus();
}

absl::Status LoadedModel::StartProfile(uint32_t requests, uint32_t rows) {
  RETURN_IF_ERROR(CheckProfile(rows));
  ProgramKey key;
  key.batch = BatchFor(rows == 0 ? planned_.max_batch_size : rows);
  for (const ServedDimension& dimension : served_.dimensions) {
    key.sizes.push_back(dimension.maximum);
  }
  ASSIGN_OR_RETURN(ProgramCache::Entry* const entry, FindOrMake(key, nullptr));
  Profiled profiled = {.executor = entry->executor.get(),
                       .evictions = cache_->evictions()};
  for (const ServedPort& port : planned_.inputs) {
    profiled.inputs.push_back(RandomBytes(
        port.port.dtype, profiled.executor->input(port.port.name).size()));
  }
  // The device's timer is one of the stream that trains.
  ASSIGN_OR_RETURN(
      profiled.profile,
      StepProfile::Create(
          requests,
          {{{"request", profiled.executor}}, arena_bytes_, outside_bytes_},
          nullptr));
  profiled_ = std::move(profiled);
  return absl::OkStatus();
}

absl::Status LoadedModel::CheckProfiled() const {
  if (!profiled_.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(request_.name, " is not being profiled"));
  }
  if (cache_->evictions() == profiled_->evictions) return absl::OkStatus();
  return absl::AbortedError(
      absl::StrCat("requests for other sizes replaced programs of ",
                   request_.name, " meanwhile; profile it again"));
}

absl::Status LoadedModel::ProfileRequest() {
  absl::Status status = CheckProfiled();
  if (status.ok()) {
    for (size_t i = 0; i < planned_.inputs.size(); ++i) {
      const absl::Span<std::byte> to =
          profiled_->executor->input(planned_.inputs[i].port.name);
      std::copy_n(profiled_->inputs[i].begin(), to.size(), to.begin());
    }
    status = profiled_->profile->Run(*profiled_->executor);
  }
  if (!status.ok()) profiled_.reset();
  return status;
}

absl::StatusOr<StoredProfile> LoadedModel::TakeProfile() {
  const absl::Status checked = CheckProfiled();
  std::string trace;
  if (checked.ok()) trace = profiled_->profile->Trace();
  profiled_.reset();
  RETURN_IF_ERROR(checked);
  ASSIGN_OR_RETURN(const WrittenBlob blob,
                   WriteBlob(device_.blob_dir, {absl::string_view(trace)}));
  return StoredProfile{blob.sha256, blob.bytes};
}

absl::Status LoadedModel::InferInStages(const InferenceBatch& batch,
                                        InferenceAnswer* answer) {
  StageRun run(StageStore(device_.allocator, &holder_.name()),
               &device_.backend->transfer());
  ProgramKey key = KeyOf(batch);
  while (true) {
    key.answers = run.answers();
    passed_bytes_ = run.bytes();
    ASSIGN_OR_RETURN(ProgramCache::Entry* const stage, FindOrMake(key, answer));
    const HostInputs inputs = InputsOf(batch, *stage);
    if (stage->stage_end != nullptr) {
      RETURN_IF_ERROR(run.Run(*stage, inputs));
      continue;
    }
    if (stage->outputs.size() != batch.outputs.size()) {
      return absl::InternalError(
          absl::StrCat(request_.name, " has ", stage->outputs.size(),
                       " outputs, not ", batch.outputs.size()));
    }
    ASSIGN_OR_RETURN(const HostOutputs outputs,
                     OutputsOf(batch, *stage, answer));
    RETURN_IF_ERROR(run.Bring(*stage->executor));
    return stage->executor->RunOn(inputs, outputs);
  }
}

}  // namespace gpupool::engine
