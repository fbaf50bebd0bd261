#include "server/api/inference/inference_service.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/api/inference/infer_reactors.h"
#include "server/api/inference/log_settings.h"
#include "server/api/inference/model_messages.h"
#include "server/api/inference/region_calls.h"
#include "server/api/inference/region_tensors.h"
#include "server/api/inference/trace_settings.h"
#include "server/api/rpc/grpc_status.h"
#include "server/control/records/taken_names.h"

namespace gpupool::server {
namespace {

using grpc::CallbackServerContext;
using grpc::ServerUnaryReactor;

// Names that clients check before they use a feature. All of them are served,
// binary_tensor_data by the HTTP port (server/http).
constexpr const char* kExtensions[] = {
    "model_repository",    "model_repository(unload_dependents)",
    "model_configuration", "binary_tensor_data",
    "parameters",          "sequence",
    "statistics",          "logging",
    "classification"};

ServerUnaryReactor* Answer(CallbackServerContext* context,
                           const absl::Status& status) {
  ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

ServerUnaryReactor* NotOffered(CallbackServerContext* context,
                               absl::string_view what) {
  return Answer(context, absl::UnimplementedError(what));
}

ServerUnaryReactor* NoSharedMemory(CallbackServerContext* context) {
  return Answer(context, SharedMemoryDisabled());
}

absl::Status CheckRepositoryName(const std::string& name) {
  if (name.empty()) return absl::OkStatus();
  return absl::UnimplementedError(
      "'repository_name' specification is not supported; leave it empty");
}

// Reads the parameter unload_dependents. Other parameters are ignored.
absl::StatusOr<UnloadScope> ScopeOf(
    const inference::RepositoryModelUnloadRequest& request) {
  const auto found = request.parameters().find("unload_dependents");
  if (found == request.parameters().end()) return UnloadScope::kModel;
  if (!found->second.has_bool_param()) {
    return absl::InvalidArgumentError(
        "invalid value type for 'unload_dependents' parameter, expected bool");
  }
  return found->second.bool_param() ? UnloadScope::kWithSteps
                                    : UnloadScope::kModel;
}

absl::Status LoadFailed(const std::string& model, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("failed to load '", model,
                                                  "': ", status.message()));
}

}  // namespace

InferenceService::InferenceService(InferenceServiceOptions options)
    : options_(std::move(options)),
      access_(options_.control, options_.gate),
      bytes_in_flight_(options_.max_bytes_in_flight),
      memory_return_(&bytes_in_flight_, {}),
      infer_context_{.serving = options_.serving,
                     .observer = options_.observer,
                     .bytes_in_flight = &bytes_in_flight_,
                     .tracer = options_.tracer,
                     .access = access_.applies() ? &access_ : nullptr,
                     .regions = options_.regions.get()} {}

// ----------------------------------------------------------------- callers

absl::StatusOr<Identity> InferenceService::CallerOf(
    const CallbackServerContext& context) const {
  if (!access_.applies()) return Identity{};
  return access_.CallerOf(context);
}

absl::StatusOr<VersionHandle> InferenceService::Route(
    const CallbackServerContext& context, const std::string& model,
    const std::string& version) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  absl::StatusOr<VersionHandle> routed =
      options_.serving->router().Route(model, version);
  RETURN_IF_ERROR(access_.CheckRoute(caller, model, routed));
  return routed;
}

bool InferenceService::MayUse(const Identity& caller,
                              const v1::ModelVersion& row) const {
  if (!caller.is_bound()) return true;
  const std::vector<std::string> steps =
      options_.serving->ensembles().ModelsOf(row.model());
  return TenantAccess::MayUse(caller, row) &&
         std::all_of(steps.begin(), steps.end(), [&](const auto& step) {
           return access_.CheckModel(caller, step).ok();
         });
}

absl::Status InferenceService::CheckMayChange(
    const CallbackServerContext& context, const std::string& model,
    UnloadScope scope) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  if (!caller.is_bound()) return absl::OkStatus();
  RETURN_IF_ERROR(access_.CheckMayChange(caller, model));
  for (const std::string& step :
       options_.serving->ensembles().ModelsOf(model)) {
    if (absl::IsNotFound(access_.CheckMayChange(caller, step))) {
      return NoSuchModel(model);
    }
    if (scope == UnloadScope::kWithSteps) {
      RETURN_IF_ERROR(access_.CheckMayChange(caller, step));
    }
  }
  return absl::OkStatus();
}

// ------------------------------------------------------- health, metadata

ServerUnaryReactor* InferenceService::ServerLive(
    CallbackServerContext* context, const inference::ServerLiveRequest*,
    inference::ServerLiveResponse* response) {
  response->set_live(true);
  return Answer(context, absl::OkStatus());
}

ServerUnaryReactor* InferenceService::ServerReady(
    CallbackServerContext* context, const inference::ServerReadyRequest*,
    inference::ServerReadyResponse* response) {
  response->set_ready(options_.serving->accepting() && options_.ready());
  return Answer(context, absl::OkStatus());
}

ServerUnaryReactor* InferenceService::ServerMetadata(
    CallbackServerContext* context, const inference::ServerMetadataRequest*,
    inference::ServerMetadataResponse* response) {
  response->set_name(options_.server_name);
  response->set_version(options_.server_version);
  for (const char* extension : kExtensions) {
    response->add_extensions(extension);
  }
  if (options_.tracer != nullptr) response->add_extensions("trace");
  if (options_.regions != nullptr) {
    response->add_extensions("system_shared_memory");
  }
  return Answer(context, absl::OkStatus());
}

ServerUnaryReactor* InferenceService::ModelReady(
    CallbackServerContext* context, const inference::ModelReadyRequest* request,
    inference::ModelReadyResponse* response) {
  const absl::Status status =
      Route(*context, request->name(), request->version()).status();
  if (absl::IsUnauthenticated(status)) return Answer(context, status);
  // An unknown model is "not ready" and no error: clients poll for models that
  // are still to come.
  if (absl::IsInvalidArgument(status)) return Answer(context, status);
  response->set_ready(status.ok() && options_.serving->accepting());
  return Answer(context, absl::OkStatus());
}

absl::Status InferenceService::FillMetadataOf(
    const CallbackServerContext& context,
    const inference::ModelMetadataRequest& request,
    inference::ModelMetadataResponse* response) {
  ASSIGN_OR_RETURN(const VersionHandle version,
                   Route(context, request.name(), request.version()));
  FillMetadata(*version, response);
  if (!request.version().empty()) {
    response->add_versions(request.version());
    return absl::OkStatus();
  }
  for (const VersionHandle& ready :
       options_.serving->registry().List(request.name())) {
    response->add_versions(std::to_string(ready->facts().version));
  }
  return absl::OkStatus();
}

ServerUnaryReactor* InferenceService::ModelMetadata(
    CallbackServerContext* context,
    const inference::ModelMetadataRequest* request,
    inference::ModelMetadataResponse* response) {
  return Answer(context, FillMetadataOf(*context, *request, response));
}

ServerUnaryReactor* InferenceService::ModelConfig(
    CallbackServerContext* context,
    const inference::ModelConfigRequest* request,
    inference::ModelConfigResponse* response) {
  const absl::StatusOr<VersionHandle> version =
      Route(*context, request->name(), request->version());
  if (version.ok()) FillConfig(**version, response->mutable_config());
  return Answer(context, version.status());
}

// --------------------------------------------------------------- inference

ServerUnaryReactor* InferenceService::ModelInfer(
    CallbackServerContext* context, const inference::ModelInferRequest* request,
    inference::ModelInferResponse* response) {
  return StartInfer(infer_context_, context, request, response);
}

grpc::ServerBidiReactor<inference::ModelInferRequest,
                        inference::ModelStreamInferResponse>*
InferenceService::ModelStreamInfer(CallbackServerContext* context) {
  return StartInferStream(infer_context_, context);
}

// -------------------------------------------------------------- statistics

// Fills in statistics of served versions only; unloaded ones have none.
absl::Status InferenceService::FillStatisticsOf(
    const CallbackServerContext& context,
    const inference::ModelStatisticsRequest& request,
    inference::ModelStatisticsResponse* response) {
  uint64_t number = 0;
  if (!request.version().empty()) {
    ASSIGN_OR_RETURN(number, ParseVersion(request.version()));
  }
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  for (const VersionHandle& version :
       options_.serving->registry().List(request.name())) {
    if (number != 0 && version->facts().version != number) continue;
    if (!access_.MayUse(caller, *version)) continue;
    FillStatistics(*version, response->add_model_stats());
  }
  if (request.name().empty() || response->model_stats_size() > 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("requested model '", request.name(), "'",
                   number == 0 ? "" : absl::StrCat(" version ", number),
                   " is not available; RepositoryIndex lists what is"));
}

ServerUnaryReactor* InferenceService::ModelStatistics(
    CallbackServerContext* context,
    const inference::ModelStatisticsRequest* request,
    inference::ModelStatisticsResponse* response) {
  return Answer(context, FillStatisticsOf(*context, *request, response));
}

// -------------------------------------------------------------- repository

absl::Status InferenceService::FillIndexOf(
    const CallbackServerContext& context,
    const inference::RepositoryIndexRequest& request,
    inference::RepositoryIndexResponse* response) {
  RETURN_IF_ERROR(CheckRepositoryName(request.repository_name()));
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  ASSIGN_OR_RETURN(const std::vector<v1::ModelVersion> versions,
                   options_.repository->Versions());
  for (const v1::ModelVersion& version : versions) {
    const bool ready = options_.serving->registry().Find(
                           version.model(), version.version()) != nullptr;
    if (request.ready() && !ready) continue;
    if (!MayUse(caller, version)) continue;
    FillIndex(version, ready, response->add_models());
  }
  return absl::OkStatus();
}

ServerUnaryReactor* InferenceService::RepositoryIndex(
    CallbackServerContext* context,
    const inference::RepositoryIndexRequest* request,
    inference::RepositoryIndexResponse* response) {
  return Answer(context, FillIndexOf(*context, *request, response));
}

ServerUnaryReactor* InferenceService::RepositoryModelLoad(
    CallbackServerContext* context,
    const inference::RepositoryModelLoadRequest* request,
    inference::RepositoryModelLoadResponse*) {
  const absl::Status checked = CheckRepositoryName(request->repository_name());
  if (!checked.ok()) return Answer(context, checked);
  if (!request->parameters().empty()) {
    return Answer(context,
                  absl::InvalidArgumentError(absl::StrCat(
                      "load parameter '", request->parameters().begin()->first,
                      "' is not supported; upload the model first")));
  }
  const absl::Status may =
      CheckMayChange(*context, request->model_name(), UnloadScope::kModel);
  if (!may.ok()) {
    return Answer(context, LoadFailed(request->model_name(), may));
  }
  ServerUnaryReactor* reactor = context->DefaultReactor();
  options_.repository->Load(
      request->model_name(),
      [reactor, model = request->model_name()](const absl::Status& status) {
        reactor->Finish(ToGrpc(LoadFailed(model, status)));
      });
  return reactor;
}

ServerUnaryReactor* InferenceService::RepositoryModelUnload(
    CallbackServerContext* context,
    const inference::RepositoryModelUnloadRequest* request,
    inference::RepositoryModelUnloadResponse*) {
  const absl::Status checked = CheckRepositoryName(request->repository_name());
  if (!checked.ok()) return Answer(context, checked);
  const absl::StatusOr<UnloadScope> scope = ScopeOf(*request);
  if (!scope.ok()) return Answer(context, scope.status());
  const absl::Status may =
      CheckMayChange(*context, request->model_name(), *scope);
  if (!may.ok()) return Answer(context, may);
  ServerUnaryReactor* reactor = context->DefaultReactor();
  options_.repository->Unload(request->model_name(), *scope,
                              [reactor](const absl::Status& status) {
                                reactor->Finish(ToGrpc(status));
                              });
  return reactor;
}

// -------------------------------------------------------------- log, traces

ServerUnaryReactor* InferenceService::LogSettings(
    CallbackServerContext* context,
    const inference::LogSettingsRequest* request,
    inference::LogSettingsResponse* response) {
  return Answer(context, AnswerLogSettings(*request, options_.log, response));
}

ServerUnaryReactor* InferenceService::TraceSetting(
    CallbackServerContext* context,
    const inference::TraceSettingRequest* request,
    inference::TraceSettingResponse* response) {
  return Answer(context,
                AnswerTraceSetting(*request, options_.serving->router(),
                                   options_.tracer, response));
}

// ----------------------------------------------------------- shared memory

ServerUnaryReactor* InferenceService::SystemSharedMemoryStatus(
    CallbackServerContext* context,
    const inference::SystemSharedMemoryStatusRequest* request,
    inference::SystemSharedMemoryStatusResponse* response) {
  if (options_.regions == nullptr) return NoSharedMemory(context);
  const auto caller = options_.regions->CallerOf(*context);
  if (!caller.ok()) return Answer(context, caller.status());
  return Answer(context, FillRegions(*request, *caller,
                                     options_.regions->book(), response));
}

ServerUnaryReactor* InferenceService::SystemSharedMemoryRegister(
    CallbackServerContext* context,
    const inference::SystemSharedMemoryRegisterRequest* request,
    inference::SystemSharedMemoryRegisterResponse*) {
  if (options_.regions == nullptr) return NoSharedMemory(context);
  const auto caller = options_.regions->CallerOf(*context);
  if (!caller.ok()) return Answer(context, caller.status());
  return Answer(context,
                RegisterRegion(*request, *caller, &options_.regions->book()));
}

ServerUnaryReactor* InferenceService::SystemSharedMemoryUnregister(
    CallbackServerContext* context,
    const inference::SystemSharedMemoryUnregisterRequest* request,
    inference::SystemSharedMemoryUnregisterResponse*) {
  if (options_.regions == nullptr) return NoSharedMemory(context);
  const auto caller = options_.regions->CallerOf(*context);
  if (caller.ok()) {
    options_.regions->book().Unregister(caller->tenant, request->name());
  }
  return Answer(context, caller.status());
}

ServerUnaryReactor* InferenceService::CudaSharedMemoryStatus(
    CallbackServerContext* context,
    const inference::CudaSharedMemoryStatusRequest* request,
    inference::CudaSharedMemoryStatusResponse*) {
  if (options_.regions == nullptr) return NoSharedMemory(context);
  return Answer(context, NoCudaRegion(request->name()));
}

ServerUnaryReactor* InferenceService::CudaSharedMemoryUnregister(
    CallbackServerContext* context,
    const inference::CudaSharedMemoryUnregisterRequest*,
    inference::CudaSharedMemoryUnregisterResponse*) {
  if (options_.regions == nullptr) return NoSharedMemory(context);
  return Answer(context, absl::OkStatus());
}

// ------------------------------------------------------------- not offered

ServerUnaryReactor* InferenceService::CudaSharedMemoryRegister(
    CallbackServerContext* context,
    const inference::CudaSharedMemoryRegisterRequest*,
    inference::CudaSharedMemoryRegisterResponse*) {
  return NotOffered(context,
                    "Client shared memory of CUDA is disabled; use system "
                    "shared memory, or send tensors in the request");
}

}  // namespace gpupool::server
