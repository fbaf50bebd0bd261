#include "server/api/inference/infer_request.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/api/inference/cached_answer.h"
#include "server/serving/tensor/classification.h"
#include "server/serving/tensor/data_type.h"
#include "server/serving/tensor/held_elements.h"

namespace gpupool::server {
namespace {

// Rows of one output from the worker.
struct Rows {
  const std::vector<int64_t>& shape;  // shape of one row
  absl::Span<const std::byte> bytes;  // in the type of slots
};

// Sets `raw` to the elements in the type of answers. The copy is the only one
// for types that slots hold as they are.
void ToSent(v1::DataType type, absl::Span<const std::byte> held,
            std::string* raw) {
  const v1::DataType held_type = HeldType(type);
  if (held_type == type) {
    raw->assign(reinterpret_cast<const char*>(held.data()), held.size());
    return;
  }
  raw->resize(held.size() / ElementBytes(held_type) * ElementBytes(type));
  CopyFromHeld(type, held, reinterpret_cast<std::byte*>(raw->data()));
}

// Returns the corner of the rows that has the shape, in the type of slots.
std::string CutRows(const TensorFormat& format, uint32_t rows, const Rows& from,
                    std::vector<int64_t> shape) {
  std::vector<int64_t> whole = from.shape;
  whole.insert(whole.begin(), rows);
  shape.insert(shape.begin(), rows);
  const uint64_t element_bytes = ElementBytes(HeldType(format.data_type));
  uint64_t bytes = element_bytes;
  for (int64_t size : shape) bytes *= static_cast<uint64_t>(size);
  std::string cut(bytes, '\0');
  CutTensor({whole, from.bytes.data()}, element_bytes,
            {shape, reinterpret_cast<std::byte*>(cut.data())});
  return cut;
}

// Returns the shape of one row, cut back to the sizes of the request.
std::vector<int64_t> CutShape(const TensorFormat& format,
                              const CheckedInputs& inputs,
                              std::vector<int64_t> shape) {
  for (const TensorFormat::Variable& variable : format.variable) {
    // The worker's answer may have fewer dimensions, or smaller ones.
    if (!variable.IsKnown() || variable.axis >= shape.size()) continue;
    const absl::StatusOr<int64_t> size = variable.SizeFor(inputs.sizes);
    if (!size.ok()) continue;
    shape[variable.axis] = std::min(shape[variable.axis], *size);
  }
  return shape;
}

// Returns the elements of an output in the type of answers. `shape` is that of
// a row that the client gets.
std::string RawOf(const TensorFormat& format, uint32_t request_rows,
                  const Rows& rows, const std::vector<int64_t>& shape) {
  std::string raw;
  // Nothing was padded: one copy of contiguous rows is enough.
  if (shape == rows.shape) {
    ToSent(format.data_type, rows.bytes, &raw);
    return raw;
  }
  std::string cut = CutRows(format, request_rows, rows, shape);
  if (HeldType(format.data_type) == format.data_type) return cut;
  ToSent(format.data_type,
         absl::MakeConstSpan(reinterpret_cast<const std::byte*>(cut.data()),
                             cut.size()),
         &raw);
  return raw;
}

// An output as the client asks for it.
struct WantedOutput {
  const TensorFormat& format;
  uint32_t classes = 0;  // as AskedOutput
};

// Adds an output, cut back to the sizes of the request.
void AddOutput(const WantedOutput& wanted, const CheckedInputs& inputs,
               const Rows& rows, inference::ModelInferResponse* response) {
  const TensorFormat& format = wanted.format;
  auto* output = response->add_outputs();
  output->set_name(format.name);
  if (format.batched) output->add_shape(inputs.rows);
  const std::vector<int64_t> shape = CutShape(format, inputs, rows.shape);
  std::string raw = RawOf(format, inputs.rows, rows, shape);
  if (wanted.classes == 0) {
    output->set_datatype(std::string(DataTypeName(format.data_type)));
    for (const int64_t size : shape) output->add_shape(size);
    response->add_raw_output_contents(std::move(raw));
    return;
  }
  ClassifiedRows classified{
      .type = format.data_type,
      .rows = inputs.rows,
      .elements = 1,
      .bytes = absl::MakeConstSpan(
          reinterpret_cast<const std::byte*>(raw.data()), raw.size()),
      .labels = {}};
  for (const int64_t size : shape) {
    classified.elements *= static_cast<uint64_t>(size);
  }
  if (format.labels != nullptr) classified.labels = *format.labels;
  const uint64_t classes =
      std::min<uint64_t>(wanted.classes, classified.elements);
  output->set_datatype("BYTES");
  output->add_shape(static_cast<int64_t>(classes));
  response->add_raw_output_contents(Classify(classified, classes));
}

}  // namespace

void InferRequest::BeginTrace(const TraceHeaders& headers,
                              absl::string_view name) {
  trace_ = RequestTrace::Begin(context_.tracer, headers, name);
  if (trace_ == nullptr) return;
  stages = trace_->stages();
  steps = trace_->steps();
}

void InferRequest::EndTrace(const absl::Status& status, absl::string_view model,
                            const ServedVersion* version) {
  if (trace_ == nullptr) return;
  std::optional<uint32_t> responses;
  if (decoupled_) responses = responses_;
  trace_->End(status, {.id = id_,
                       .model = model,
                       .version = version,
                       .rows = inputs.rows,
                       .responses = responses});
}

void InferRequest::Start(const inference::ModelInferRequest& request,
                         inference::ModelInferResponse* response,
                         absl::Time deadline) {
  response_ = response;
  id_ = request.id();
  absl::Status status = Prepare(request, deadline);
  if (status.ok()) {
    // A copy, since the answer may come and destroy this object before Enqueue
    // returns.
    const VersionHandle version = this->version();
    ResponseCache* const cache = version->cache();
    // An answer of a sequence depends on the requests before it.
    const bool cached = cache != nullptr && !version->facts().takes_sequences;
    if (cached && AnswerFromCache(*cache)) return;
    version->executor().Enqueue(this);
    return;
  }
  places_ = {};
  const VersionHandle version = TakeVersion();
  if (version != nullptr) {
    version->executor().CountRefused(status.code());
  } else if (context_.observer != nullptr) {
    context_.observer->RequestUnrouted(status.code());
  }
  EndTrace(status, request.model_name(), version.get());
  Finished(status);
}

// Checks that the server takes requests, and takes a ticket for the bytes.
// First of all steps, since it bounds the memory of everything that follows.
absl::Status InferRequest::Admit(const inference::ModelInferRequest& request) {
  if (!context_.serving->accepting()) {
    return absl::UnavailableError(
        "Server not ready: it is starting or draining; retry");
  }
  return AdmitBytes(request.ByteSizeLong(), &ticket_);
}

absl::Status InferRequest::AdmitBytes(
    uint64_t bytes, std::optional<BytesInFlight::Ticket>* ticket) {
  *ticket = context_.bytes_in_flight->Admit(bytes);
  if (ticket->has_value()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a request of ", bytes,
      " bytes does not fit: ", context_.bytes_in_flight->used(), " of ",
      context_.bytes_in_flight->limit(),
      " bytes of requests in flight are in use; retry later, or send fewer "
      "rows in one request"));
}

absl::Status InferRequest::FindRegions(
    absl::string_view label, const inference::ModelInferRequest& request) {
  if (!NamesRegions(request)) return absl::OkStatus();
  if (context_.regions == nullptr) return SharedMemoryDisabled();
  RETURN_IF_ERROR(region_caller_.status());
  ASSIGN_OR_RETURN(
      places_, FindPlaces(request, *region_caller_, context_.regions->book()));
  if (decoupled_ && !places_.outputs.empty()) {
    return absl::UnimplementedError(absl::StrCat(
        "an output in shared memory is not offered for model ", label,
        ", which is decoupled: it may have several responses, and each would "
        "overwrite the one before; take the output from the responses"));
  }
  return AdmitBytes(places_.InputBytes(), &copies_ticket_);
}

absl::StatusOr<VersionHandle> InferRequest::Route(
    const inference::ModelInferRequest& request) const {
  RETURN_IF_ERROR(caller_.status());
  absl::StatusOr<VersionHandle> routed =
      context_.serving->router().RouteToQueue(request.model_name(),
                                              request.model_version());
  if (context_.access == nullptr) return routed;
  RETURN_IF_ERROR(
      context_.access->CheckRoute(*caller_, request.model_name(), routed));
  return routed;
}

// Routes the request and checks its contents. All errors of the client are
// found here, before anything is queued.
absl::Status InferRequest::Prepare(const inference::ModelInferRequest& request,
                                   absl::Time request_deadline) {
  RETURN_IF_ERROR(Admit(request));
  ASSIGN_OR_RETURN(const VersionHandle version, Route(request));
  {
    absl::MutexLock lock(&mutex_);
    version_ = version;
  }
  const VersionFacts& facts = version->facts();
  model_ = facts.model;
  number_ = std::to_string(facts.version);
  decoupled_ = facts.decoupled;
  if (decoupled_ && !TakesResponses()) {
    return absl::UnimplementedError(absl::StrCat(
        "ModelInfer RPC doesn't support models with decoupled transaction "
        "policy; ask model ",
        facts.label, " by ModelStreamInfer, or over HTTP by generate_stream"));
  }
  ASSIGN_OR_RETURN(const RequestParameters parameters, ReadParameters(request));
  wants_empty_final_ = parameters.empty_final_response;
  if (!facts.takes_sequences) {
    RETURN_IF_ERROR(RefuseSequence(facts.label, parameters.sequence));
  }
  sequence = parameters.sequence;
  RETURN_IF_ERROR(FindRegions(facts.label, request));
  ASSIGN_OR_RETURN(tensors_, ViewInputs(facts.label, request, places_));
  ASSIGN_OR_RETURN(inputs, CheckInputs({.label = facts.label,
                                        .formats = facts.inputs,
                                        .max_batch_size = facts.max_batch_size,
                                        .dimensions = facts.dimensions,
                                        .texts = facts.texts != nullptr},
                                       tensors_.inputs));
  ASSIGN_OR_RETURN(outputs_,
                   SelectOutputs(facts.label, facts.outputs, request));
  deadline = request_deadline;
  if (parameters.timeout != absl::InfiniteDuration()) {
    queue_deadline = absl::Now() + parameters.timeout;
  }
  return absl::OkStatus();
}

bool InferRequest::AnswerFromCache(ResponseCache& cache) {
  const absl::Time start = absl::Now();
  const VersionFacts& facts = this->version()->facts();
  cache_key_ = KeyOf({.version_id = facts.id,
                      .model = facts.model,
                      .version = facts.version,
                      .outputs = outputs_,
                      .inputs = tensors_.inputs});
  const std::shared_ptr<const CachedAnswer> answer = cache.Find(*cache_key_);
  if (answer == nullptr) {
    cache_lookup_ = absl::Now() - start;
    return false;
  }
  const VersionHandle version = TakeVersion();
  FillIdentity(response_);
  AddOutputs(*answer, response_);
  const absl::Status written = WritePlaced(places_.outputs, response_);
  places_ = {};
  version->executor().RecordCache({.hit = true, .time = absl::Now() - start});
  EndTrace(written, facts.model, version.get());
  Finished(written);
  return true;
}

void InferRequest::KeepAnswer(const ServedVersion& version) {
  ResponseCache* const cache = version.cache();
  if (cache == nullptr) return;
  const absl::Time start = absl::Now();
  KeepOutputs(*response_, *cache_key_, cache);
  // Before the client has the answer, since it may ask for the statistics at
  // once.
  version.executor().RecordCache(
      {.hit = false, .time = cache_lookup_ + (absl::Now() - start)});
}

void InferRequest::FillIdentity(inference::ModelInferResponse* response) const {
  response->set_id(id_);
  response->set_model_name(model_);
  response->set_model_version(number_);
}

VersionHandle InferRequest::version() const {
  absl::MutexLock lock(&mutex_);
  return version_;
}

VersionHandle InferRequest::TakeVersion() {
  absl::MutexLock lock(&mutex_);
  return std::move(version_);
}

void InferRequest::Cancel() {
  const VersionHandle version = this->version();
  if (version != nullptr) version->executor().Cancel(this);
}

void InferRequest::Continue() {
  const VersionHandle version = this->version();
  if (version != nullptr) version->executor().Resume(this);
}

void InferRequest::Add(const VersionFacts& facts, const AskedOutput& asked,
                       absl::Span<const std::byte> bytes) {
  const auto index = static_cast<size_t>(asked.index);
  AddOutput({facts.outputs[index], asked.classes}, inputs,
            {output_shapes[index], bytes}, response_);
}

void InferRequest::OnResponse(
    absl::Span<const absl::Span<const std::byte>> outputs) {
  const VersionHandle version = this->version();
  response_->Clear();
  FillIdentity(response_);
  for (const AskedOutput& asked : outputs_) {
    const auto index = static_cast<size_t>(asked.index);
    if (has_output[index]) Add(version->facts(), asked, outputs[index]);
  }
  // The client has not asked for what is in this one.
  if (response_->outputs().empty()) return Continue();
  ++responses_;
  Responded();
}

void InferRequest::OnAnswer(
    const absl::Status& status,
    absl::Span<const absl::Span<const std::byte>> outputs) {
  const VersionHandle version = TakeVersion();
  absl::Status ended = status;
  if (status.ok() && !decoupled_) {
    FillIdentity(response_);
    for (const AskedOutput& asked : outputs_) {
      const auto index = static_cast<size_t>(asked.index);
      Add(version->facts(), asked, outputs[index]);
    }
    if (cache_key_.has_value()) KeepAnswer(*version);
    ended = WritePlaced(places_.outputs, response_);
  }
  places_ = {};
  EndTrace(ended, version->facts().model, version.get());
  Finished(ended);
}

}  // namespace gpupool::server
