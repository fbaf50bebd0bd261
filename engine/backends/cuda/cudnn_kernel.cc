#include "engine/backends/cuda/cudnn_kernel.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cuda/stopwatch.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

constexpr int kCandidates = 5;

uint64_t Aligned(uint64_t bytes) { return AlignUp(bytes, kWorkspaceAlignment); }

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
  std::string key = PlanKey(*library, graph, options);
  std::unique_ptr<CudnnKernel> kernel(
      new CudnnKernel(library, std::move(key), std::move(parts)));
  absl::StatusOr<CudnnPlan> kept = RestorePlan(*library, kernel->key_);
  if (kept.ok()) {
    kernel->plans_.push_back(*std::move(kept));
  } else {
    // A measured choice may be another one next time.
    const bool measures = benchmark && !options.deterministic;
    CudnnPlanOptions asked = options;
    asked.most = measures ? kCandidates : 1;
    ASSIGN_OR_RETURN(kernel->plans_, ChoosePlans(*library, graph, asked));
    kernel->measures_ = measures && kernel->plans_.size() > 1;
    if (!kernel->measures_) {
      KeepPlan(*library, kernel->key_, kernel->plans_[0]);
    }
  }
  for (const CudnnPlan& plan : kernel->plans_) {
    kernel->shared_bytes_ =
        std::max(kernel->shared_bytes_, plan.workspace_bytes());
  }
  for (const auto* companions :
       {&kernel->parts_.before, &kernel->parts_.after}) {
    for (const Companion& companion : *companions) {
      kernel->shared_bytes_ =
          std::max(kernel->shared_bytes_, companion.kernel->workspace_bytes());
    }
  }
  return kernel;
}

// Scratch memory, then what a plan or a companion needs.
uint64_t CudnnKernel::workspace_bytes() const {
  const uint64_t bytes = Aligned(parts_.scratch_bytes) + shared_bytes_;
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
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
