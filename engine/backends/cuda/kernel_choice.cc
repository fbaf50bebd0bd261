#include "engine/backends/cuda/kernel_choice.h"

#include "absl/strings/str_cat.h"

namespace gpupool::engine::cuda {
namespace {

constexpr size_t kMostReports = 64;

// No kernel of our own reaches the other ranks.
bool IsAllReduce(Op op) {
  return op == Op::kAllReduceStart || op == Op::kAllReduceWait;
}

}  // namespace

portable::KernelOr KernelChoice::Choose(
    const CompileRequest& request, const portable::PortableContext& context) {
  if (libraries_ != nullptr) {
    auto kernel = libraries_->MakeKernel(request, context);
    if (kernel.ok() && *kernel != nullptr) return kernel;
    if (!kernel.ok() && IsAllReduce(request.node.op)) return kernel.status();
    if (!kernel.ok()) Report(request.node, kernel.status());
  }
  return portable::MakePortableKernel(request, context);
}

void KernelChoice::Report(const Node& node, const absl::Status& refusal) {
  if (log_ == nullptr || reported_.size() >= kMostReports) return;
  std::string line =
      absl::StrCat(OpName(node.op), " of '", node.source,
                   "' runs on a portable kernel: ", refusal.message());
  if (reported_.insert(line).second) log_(line);
}

}  // namespace gpupool::engine::cuda
