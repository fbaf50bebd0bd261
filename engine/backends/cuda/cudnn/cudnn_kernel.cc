#include "engine/backends/cuda/cudnn/cudnn_kernel.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/kernels/scratch_notes.h"
#include "engine/backends/cuda/streams/stopwatch.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/plan_only.h"

namespace gpupool::engine::cuda {
namespace {

constexpr int kCandidates = 5;

uint64_t Aligned(uint64_t bytes) { return AlignUp(bytes, kWorkspaceAlignment); }

// Returns the bytes of scratch memory and of the part that plans and companions
// share.
uint64_t WorkspaceBytes(uint64_t scratch_bytes, uint64_t shared_bytes) {
  const uint64_t bytes = Aligned(scratch_bytes) + shared_bytes;
  // Bind aligns the workspace itself, which may skip some bytes.
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

// Returns the largest workspace of a plan and its companions.
uint64_t SharedBytes(uint64_t plan_bytes, const CudnnKernel::Parts& parts) {
  for (const auto* companions : {&parts.before, &parts.after}) {
    for (const CudnnKernel::Companion& companion : *companions) {
      plan_bytes = std::max(plan_bytes, companion.kernel->workspace_bytes());
    }
  }
  return plan_bytes;
}

// Returns whether plans are measured. Another process may measure another
// fastest plan, so a deterministic kernel is never measured.
bool Measures(const CudnnPlanOptions& options, bool benchmark) {
  return benchmark && !options.deterministic;
}

CudnnPlanOptions WithCandidates(const CudnnPlanOptions& options,
                                bool benchmark) {
  CudnnPlanOptions asked = options;
  asked.most = Measures(options, benchmark) ? kCandidates : 1;
  return asked;
}

// Returns the key of a note about scratch memory. Several candidates may take
// more.
std::string NoteKeyOf(const std::string& plan_key,
                      const CudnnPlanOptions& asked) {
  return absl::StrCat(plan_key, asked.most > 1 ? " measured" : "");
}

// Makes a kernel for a planner.
absl::StatusOr<std::unique_ptr<Kernel>> MakePlanOnly(
    const CudnnLibrary& library, CudnnGraph& graph,
    const CudnnKernel::Parts& parts, const CudnnPlanOptions& asked) {
  std::optional<uint64_t> bytes = FindScratch(
      library.cache(), NoteKeyOf(PlanKey(library, graph, asked), asked));
  if (!bytes.has_value()) {
    ASSIGN_OR_RETURN(bytes, AskWorkspace(library, graph, asked));
  }
  return std::make_unique<PlanOnlyKernel>(
      KernelSizes{.workspace_bytes = WorkspaceBytes(
                      parts.scratch_bytes, SharedBytes(*bytes, parts))});
}

}  // namespace

CudnnPlanOptions PlanOptionsOf(const CompileRequest& request, DType type) {
  CudnnPlanOptions options;
  options.deterministic = request.options.deterministic;
  options.tensor_float32 = request.options.tensor_float32;
  options.float32 = type == DType::kFloat32;
  return options;
}

absl::StatusOr<std::unique_ptr<Kernel>> CudnnKernel::Make(
    const CudnnLibrary* library, CudnnGraph& graph, Parts parts,
    const CudnnPlanOptions& options, bool benchmark) {
  const CudnnPlanOptions asked = WithCandidates(options, benchmark);
  if (library->only_plans()) {
    return MakePlanOnly(*library, graph, parts, asked);
  }
  std::string key = PlanKey(*library, graph, options);
  std::unique_ptr<CudnnKernel> kernel(
      new CudnnKernel(library, std::move(key), std::move(parts)));
  absl::StatusOr<CudnnPlan> kept = RestorePlan(*library, kernel->key_);
  if (kept.ok()) {
    kernel->plans_.push_back(*std::move(kept));
  } else {
    ASSIGN_OR_RETURN(kernel->plans_, ChoosePlans(*library, graph, asked));
    kernel->measures_ =
        Measures(options, benchmark) && kernel->plans_.size() > 1;
    if (!kernel->measures_) {
      KeepPlan(*library, kernel->key_, kernel->plans_[0]);
    }
  }
  uint64_t plan_bytes = 0;
  for (const CudnnPlan& plan : kernel->plans_) {
    plan_bytes = std::max(plan_bytes, plan.workspace_bytes());
  }
  NoteScratch(library->cache(), NoteKeyOf(kernel->key_, asked), plan_bytes);
  kernel->shared_bytes_ = SharedBytes(plan_bytes, kernel->parts_);
  return kernel;
}

uint64_t CudnnKernel::workspace_bytes() const {
  return WorkspaceBytes(parts_.scratch_bytes, shared_bytes_);
}

absl::Status CudnnKernel::BindCompanion(Companion& companion) {
  KernelBuffers buffers;
  for (const OperandPlace& place : companion.inputs) {
    buffers.inputs.push_back(AddressOf(place, buffers_));
  }
  for (const OperandPlace& place : companion.outputs) {
    buffers.outputs.push_back(AddressOf(place, buffers_));
  }
  buffers.workspace = buffers_.workspace + Aligned(parts_.scratch_bytes);
  return companion.kernel->Bind(buffers);
}

absl::Status CudnnKernel::Bind(const KernelBuffers& buffers) {
  buffers_ = buffers;
  buffers_.workspace = reinterpret_cast<std::byte*>(
      Aligned(reinterpret_cast<uint64_t>(buffers.workspace)));
  std::vector<CudnnPlan::Address> addresses;
  for (const Tensor& tensor : parts_.tensors) {
    addresses.push_back({tensor.id, AddressOf(tensor.place, buffers_)});
  }
  for (const Number& number : parts_.numbers) {
    addresses.push_back({number.id, &number.value});
  }
  // Behind the scratch memory, in which kernels pass on results.
  void* workspace = buffers_.workspace + Aligned(parts_.scratch_bytes);
  for (CudnnPlan& plan : plans_) {
    RETURN_IF_ERROR(plan.Bind(addresses, workspace));
  }
  for (auto* companions : {&parts_.before, &parts_.after}) {
    for (Companion& companion : *companions) {
      RETURN_IF_ERROR(BindCompanion(companion));
    }
  }
  return absl::OkStatus();
}

absl::Status CudnnKernel::Prepare() {
  if (!measures_) return absl::OkStatus();
  // Only the first Prepare measures.
  measures_ = false;
  ASSIGN_OR_RETURN(const size_t best,
                   FindFastest(library_->stream(), plans_.size(),
                               [&](size_t i) { return plans_[i].Run(); }));
  std::swap(plans_[0], plans_[best]);
  KeepPlan(*library_, key_, plans_[0]);
  return absl::OkStatus();
}

absl::Status CudnnKernel::Run() {
  for (Companion& companion : parts_.before) {
    RETURN_IF_ERROR(companion.kernel->Run());
  }
  RETURN_IF_ERROR(plans_[0].Run());
  for (Companion& companion : parts_.after) {
    RETURN_IF_ERROR(companion.kernel->Run());
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine::cuda
