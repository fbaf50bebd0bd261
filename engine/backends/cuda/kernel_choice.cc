#include "engine/backends/cuda/kernel_choice.h"

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/op_library.h"

namespace gpupool::engine::cuda {
namespace {

constexpr size_t kMostReports = 64;

bool IsProduct(Op op) {
  const Library library = LibraryOf(op);
  return library == Library::kMatMul || library == Library::kConvolution ||
         library == Library::kAttention;
}

}  // namespace

portable::KernelOr KernelChoice::Choose(
    const CompileRequest& asked, const portable::PortableContext& context) {
  ReportPrecision(asked);
  const CompileRequest request = {asked.graph, asked.node, asked.stable_inputs,
                                  Limited(asked.options, cores_)};
  if (libraries_ != nullptr) {
    auto kernel = libraries_->MakeKernel(request, context);
    if (kernel.ok() && *kernel != nullptr) return kernel;
    // The refusal is final for a sum over ranks. All other nodes have a
    // portable kernel.
    const bool alone = LibraryOf(request.node.op) == Library::kAllReduce;
    if (!kernel.ok() && alone) return kernel.status();
    if (!kernel.ok()) ReportRefusal(request.node, kernel.status());
  }
  return portable::MakePortableKernel(request, context);
}

void KernelChoice::Report(const std::string& line) {
  if (log_ == nullptr || reported_.size() >= kMostReports) return;
  if (reported_.insert(line).second) log_(line);
}

void KernelChoice::ReportPrecision(const CompileRequest& request) {
  if (!IsProduct(request.node.op) || request.node.outputs.empty()) return;
  const DType type = request.graph.value(request.node.outputs[0]).dtype;
  const std::string line = MissingPrecision(facts_, type, request.options);
  if (!line.empty()) Report(line);
}

void KernelChoice::ReportRefusal(const Node& node,
                                 const absl::Status& refusal) {
  Report(absl::StrCat(OpName(node.op), " of '", node.source,
                      "' runs on a portable kernel: ", refusal.message()));
}

}  // namespace gpupool::engine::cuda
