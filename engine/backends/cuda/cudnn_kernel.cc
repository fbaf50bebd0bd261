#include "engine/backends/cuda/cudnn_kernel.h"

#include <algorithm>
#include <utility>

#include "engine/backends/cuda/stopwatch.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

constexpr uint64_t kWorkspaceAlignment = 256;
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
    kernel->plan_bytes_ = std::max(kernel->plan_bytes_, plan.workspace_bytes());
  }
  for (const Follower& follower : kernel->parts_.followers) {
    kernel->follower_bytes_ =
        std::max(kernel->follower_bytes_, follower.kernel->workspace_bytes());
  }
  return kernel;
}

// Scratch memory, then what a plan or a follower needs, each after the other.
uint64_t CudnnKernel::workspace_bytes() const {
  const uint64_t bytes =
      Aligned(parts_.scratch_bytes) + std::max(plan_bytes_, follower_bytes_);
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

std::byte* CudnnKernel::AddressOf(const OperandPlace& place) const {
  switch (place.kind) {
    case OperandPlace::Kind::kInput:
      return buffers_.inputs[place.index];
    case OperandPlace::Kind::kOutput:
      return buffers_.outputs[place.index];
    default:
      return buffers_.workspace + place.offset;
  }
}

absl::Status CudnnKernel::BindFollower(Follower& follower) {
  KernelBuffers behind;
  for (const OperandPlace& place : follower.inputs) {
    behind.inputs.push_back(AddressOf(place));
  }
  for (const OperandPlace& place : follower.outputs) {
    behind.outputs.push_back(AddressOf(place));
  }
  behind.workspace = buffers_.workspace + Aligned(parts_.scratch_bytes);
  return follower.kernel->Bind(behind);
}

absl::Status CudnnKernel::Bind(const KernelBuffers& buffers) {
  buffers_ = buffers;
  buffers_.workspace = reinterpret_cast<std::byte*>(
      Aligned(reinterpret_cast<uint64_t>(buffers.workspace)));
  std::vector<CudnnPlan::Address> addresses;
  for (const Tensor& tensor : parts_.tensors) {
    addresses.push_back({tensor.id, AddressOf(tensor.place)});
  }
  for (const Number& number : parts_.numbers) {
    addresses.push_back({number.id, &number.value});
  }
  void* workspace = buffers_.workspace + Aligned(parts_.scratch_bytes);
  for (CudnnPlan& plan : plans_) {
    RETURN_IF_ERROR(plan.Bind(addresses, workspace));
  }
  for (Follower& follower : parts_.followers) {
    RETURN_IF_ERROR(BindFollower(follower));
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
  RETURN_IF_ERROR(plans_[0].Run());
  for (Follower& follower : parts_.followers) {
    RETURN_IF_ERROR(follower.kernel->Run());
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine::cuda
