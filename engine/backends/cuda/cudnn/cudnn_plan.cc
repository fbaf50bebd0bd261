#include "engine/backends/cuda/cudnn/cudnn_plan.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

// The heuristics give the best configurations first, so a few are enough.
constexpr int64_t kMostConfigurations = 16;

using Notes = std::vector<cudnnBackendNumericalNote_t>;

bool Has(const Notes& notes, cudnnBackendNumericalNote_t note) {
  return std::find(notes.begin(), notes.end(), note) != notes.end();
}

// Returns whether an engine with these notes fits the options.
bool Allowed(const Notes& notes, const CudnnPlanOptions& options) {
  if (options.deterministic &&
      Has(notes, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC)) {
    return false;
  }
  // Winograd's largest tile loses too many bits.
  if (Has(notes, CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13)) return false;
  if (!options.float32) return true;
  // The engine would round operands to 16 bits, which is less than TF32.
  if (Has(notes, CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS)) return false;
  return options.tensor_float32 ||
         !Has(notes, CUDNN_NUMERICAL_NOTE_TENSOR_CORE);
}

absl::StatusOr<std::vector<CudnnDescriptor>> Propose(
    const CudnnLibrary& library, const CudnnDescriptor& graph,
    cudnnBackendHeurMode_t mode) {
  const CudnnFunctions& f = library.functions();
  CudnnDescriptor heuristic(&f, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  if (library.description() != nullptr) {
    heuristic.SetDescriptor(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP,
                            library.description());
  }
  RETURN_IF_ERROR(heuristic.Finalize("asking for engines"));
  std::vector<CudnnDescriptor> found;
  // The library fills objects that the caller has made.
  std::vector<cudnnBackendDescriptor_t> raw;
  for (int64_t i = 0; i < kMostConfigurations; ++i) {
    found.emplace_back(&f, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    RETURN_IF_ERROR(found.back().status());
    raw.push_back(found.back().get());
  }
  int64_t count = 0;
  RETURN_IF_ERROR(
      f.StatusOf(f.get_attribute(heuristic.get(), CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                 CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                 kMostConfigurations, &count, raw.data()),
                 "reading the engines"));
  // The count comes from the library. The limit keeps it within the objects
  // that were made.
  found.resize(static_cast<size_t>(std::min(count, kMostConfigurations)));
  return found;
}

absl::StatusOr<Notes> NotesOf(const CudnnLibrary& library,
                              const CudnnDescriptor& configuration) {
  CudnnDescriptor engine(&library.functions(), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  RETURN_IF_ERROR(configuration.Get(CUDNN_ATTR_ENGINECFG_ENGINE, engine));
  return engine.Values<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
      CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
}

void SetDevice(const CudnnLibrary& library, CudnnDescriptor& plan) {
  if (library.description() != nullptr) {
    plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                       library.description());
    return;
  }
  const cudnnHandle_t handle = library.handle();
  plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
}

// Makes a CudnnPlan from a finished plan.
absl::StatusOr<CudnnPlan> PlanOf(const CudnnLibrary& library,
                                 std::shared_ptr<const CudnnDescriptor> plan) {
  ASSIGN_OR_RETURN(const int64_t bytes,
                   plan->Integer(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  return CudnnPlan(&library, std::move(plan), static_cast<uint64_t>(bytes));
}

absl::StatusOr<CudnnPlan> Built(const CudnnLibrary& library,
                                CudnnDescriptor plan) {
  RETURN_IF_ERROR(plan.Finalize("making a plan"));
  return PlanOf(library,
                std::make_shared<const CudnnDescriptor>(std::move(plan)));
}

// Adds plans of the mode's engines. `why` receives the last refusal.
void Collect(const CudnnLibrary& library, const CudnnDescriptor& graph,
             cudnnBackendHeurMode_t mode, const CudnnPlanOptions& options,
             std::vector<CudnnPlan>& plans, absl::Status& why) {
  absl::StatusOr<std::vector<CudnnDescriptor>> proposed =
      Propose(library, graph, mode);
  if (!proposed.ok()) {
    why = proposed.status();
    return;
  }
  for (CudnnDescriptor& configuration : *proposed) {
    if (plans.size() >= static_cast<size_t>(options.most)) return;
    const absl::StatusOr<Notes> notes = NotesOf(library, configuration);
    if (!notes.ok() || !Allowed(*notes, options)) continue;
    CudnnDescriptor plan(&library.functions(),
                         CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.SetDescriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                       configuration.get());
    SetDevice(library, plan);
    absl::StatusOr<CudnnPlan> built = Built(library, std::move(plan));
    if (!built.ok()) {
      why = built.status();
      if (absl::IsUnavailable(why)) return;  // every engine would fail
    } else if (built->workspace_bytes() <= options.workspace_bytes) {
      plans.push_back(*std::move(built));
    }
  }
}

// Adds the workspaces that the mode's engines claim for their plans.
absl::Status CollectWorkspaces(const CudnnLibrary& library,
                               const CudnnDescriptor& graph,
                               cudnnBackendHeurMode_t mode,
                               const CudnnPlanOptions& options,
                               std::vector<uint64_t>& found) {
  ASSIGN_OR_RETURN(const std::vector<CudnnDescriptor> proposed,
                   Propose(library, graph, mode));
  for (const CudnnDescriptor& configuration : proposed) {
    if (found.size() >= static_cast<size_t>(options.most)) break;
    const absl::StatusOr<Notes> notes = NotesOf(library, configuration);
    if (!notes.ok() || !Allowed(*notes, options)) continue;
    ASSIGN_OR_RETURN(
        const int64_t bytes,
        configuration.Integer(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
    if (static_cast<uint64_t>(bytes) <= options.workspace_bytes) {
      found.push_back(static_cast<uint64_t>(bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string CudnnLibrary::NameOf(const CudnnFunctions& functions,
                                 absl::string_view device) {
  return absl::StrCat("cudnn ", CudnnVersion(functions), " on ", device);
}

CudnnLibrary::CudnnLibrary(const CudnnFunctions& functions,
                           absl::string_view device, PlanCache* cache)
    : functions_(functions), cache_(cache), name_(NameOf(functions, device)) {}

CudnnLibrary::~CudnnLibrary() {
  if (handle_ != nullptr) functions_.destroy(handle_);
}

absl::StatusOr<std::unique_ptr<CudnnLibrary>> CudnnLibrary::Open(
    const CudnnFunctions& functions, cudaStream_t stream,
    absl::string_view device, PlanCache* cache) {
  std::unique_ptr<CudnnLibrary> library(
      new CudnnLibrary(functions, device, cache));
  RETURN_IF_ERROR(functions.StatusOf(functions.create(&library->handle_),
                                     "starting cuDNN"));
  library->stream_ = stream;
  RETURN_IF_ERROR(
      functions.StatusOf(functions.set_stream(library->handle_, stream),
                         "giving cuDNN its stream"));
  return library;
}

absl::StatusOr<std::unique_ptr<CudnnLibrary>> CudnnLibrary::ForDescription(
    const CudnnFunctions& functions, absl::string_view properties,
    PlanCache* cache) {
  std::unique_ptr<CudnnLibrary> library(
      new CudnnLibrary(functions, "a description", cache));
  CudnnDescriptor description(&library->functions_,
                              CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  description.Set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  static_cast<int64_t>(properties.size()), properties.data());
  RETURN_IF_ERROR(description.Finalize("reading a device's description"));
  library->description_ = std::move(description);
  return library;
}

absl::StatusOr<std::unique_ptr<CudnnLibrary>> CudnnLibrary::ForPlanning(
    const CudnnFunctions& functions, absl::string_view properties,
    absl::string_view device, PlanCache* cache) {
  ASSIGN_OR_RETURN(std::unique_ptr<CudnnLibrary> library,
                   ForDescription(functions, properties, cache));
  library->name_ = NameOf(functions, device);
  library->only_plans_ = true;
  return library;
}

std::shared_ptr<const CudnnDescriptor> CudnnLibrary::FindShared(
    const std::string& key) const {
  const auto found = shared_.find(key);
  return found == shared_.end() ? nullptr : found->second.lock();
}

void CudnnLibrary::Share(
    const std::string& key,
    const std::shared_ptr<const CudnnDescriptor>& plan) const {
  // Weak pointers: a plan lives as long as a kernel uses it.
  absl::erase_if(shared_,
                 [](const auto& entry) { return entry.second.expired(); });
  shared_[key] = plan;
}

absl::Status CudnnPlan::Bind(absl::Span<const Address> addresses,
                             void* workspace) {
  std::vector<int64_t> ids;
  std::vector<const void*> data;
  for (const Address& address : addresses) {
    ids.push_back(address.tensor);
    data.push_back(address.data);
  }
  CudnnDescriptor pack(&library_->functions(),
                       CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.SetIntegers(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids);
  pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
           static_cast<int64_t>(data.size()), data.data());
  pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1,
           &workspace);
  RETURN_IF_ERROR(pack.Finalize("giving a plan its addresses"));
  pack_ = std::move(pack);
  return absl::OkStatus();
}

absl::Status CudnnPlan::Run() {
  const CudnnFunctions& f = library_->functions();
  return f.StatusOf(f.execute(library_->handle(), plan_->get(), pack_.get()),
                    "running a plan");
}

absl::StatusOr<std::vector<CudnnPlan>> ChoosePlans(
    const CudnnLibrary& library, CudnnGraph& graph,
    const CudnnPlanOptions& options) {
  ASSIGN_OR_RETURN(const CudnnDescriptor operations,
                   graph.Finish(library.handle()));
  std::vector<CudnnPlan> plans;
  absl::Status why = absl::UnimplementedError("cuDNN has no engine that fits");
  // Mode A asks the library's heuristics. The fallback engines are slow but
  // take more.
  Collect(library, operations, CUDNN_HEUR_MODE_A, options, plans, why);
  if (plans.empty() && !absl::IsUnavailable(why)) {
    Collect(library, operations, CUDNN_HEUR_MODE_FALLBACK, options, plans, why);
  }
  if (plans.empty()) return why;
  return plans;
}

absl::StatusOr<uint64_t> AskWorkspace(const CudnnLibrary& library,
                                      CudnnGraph& graph,
                                      const CudnnPlanOptions& options) {
  ASSIGN_OR_RETURN(const CudnnDescriptor operations,
                   graph.Finish(library.handle()));
  std::vector<uint64_t> found;
  absl::Status why =
      CollectWorkspaces(library, operations, CUDNN_HEUR_MODE_A, options, found);
  if (found.empty()) {
    why = CollectWorkspaces(library, operations, CUDNN_HEUR_MODE_FALLBACK,
                            options, found);
  }
  if (!found.empty()) return *std::max_element(found.begin(), found.end());
  RETURN_IF_ERROR(why);
  return absl::UnimplementedError("cuDNN has no engine that fits");
}

std::string PlanKey(const CudnnLibrary& library, const CudnnGraph& graph,
                    const CudnnPlanOptions& options) {
  return absl::StrCat(library.name(), ": ", graph.text(),
                      options.deterministic ? " deterministic" : "",
                      options.tensor_float32 ? " tf32" : "", " workspace ",
                      options.workspace_bytes);
}

void KeepPlan(const CudnnLibrary& library, const std::string& key,
              const CudnnPlan& plan) {
  const absl::StatusOr<std::string> text =
      plan.descriptor()->Text(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  // If an engine has no text form, the next process makes its plan anew.
  if (text.ok()) library.cache().Put(key, *text);
  library.Share(key, plan.descriptor());
}

absl::StatusOr<CudnnPlan> RestorePlan(const CudnnLibrary& library,
                                      const std::string& key) {
  if (auto shared = library.FindShared(key); shared != nullptr) {
    return PlanOf(library, std::move(shared));
  }
  ASSIGN_OR_RETURN(const std::string text, library.cache().Find(key));
  CudnnDescriptor plan(&library.functions(),
                       CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  SetDevice(library, plan);
  plan.Set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
           static_cast<int64_t>(text.size()), text.data());
  absl::StatusOr<CudnnPlan> built = Built(library, std::move(plan));
  if (built.ok()) {
    library.Share(key, built->descriptor());
    return built;
  }
  // Another driver or version may reject a plan that was kept.
  library.cache().Forget(key);
  return absl::NotFoundError(built.status().message());
}

}  // namespace gpupool::engine::cuda
