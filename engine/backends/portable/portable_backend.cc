#include "engine/backends/portable/portable_backend.h"

#include <string>
#include <utility>

#include "engine/backends/all_reduce.h"
#include "engine/backends/portable/launch/device_status.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::portable {
namespace {

// A kernel that checks after each run what the functors reported.
class CheckedKernel : public Kernel {
 public:
  CheckedKernel(std::unique_ptr<Kernel> kernel, const Node& node,
                DeviceError* error)
      : kernel_(std::move(kernel)),
        op_(node.op),
        source_(node.source),
        error_(error) {}

  uint64_t workspace_bytes() const override {
    return kernel_->workspace_bytes();
  }
  uint64_t resident_bytes() const override { return kernel_->resident_bytes(); }
  std::string resident_format() const override {
    return kernel_->resident_format();
  }
  absl::Status Bind(const KernelBuffers& buffers) override {
    return kernel_->Bind(buffers);
  }
  absl::Status Prepare() override { return kernel_->Prepare(); }
  absl::Status Run() override {
    // All kernels share the error, so each run starts with a clean one.
    *error_ = {};
    RETURN_IF_ERROR(kernel_->Run());
    return StatusOf(*error_, op_, source_);
  }

 private:
  std::unique_ptr<Kernel> kernel_;
  Op op_;
  std::string source_;
  DeviceError* error_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> PortableBackend::Compile(
    const CompileRequest& request) {
  if (IsAllReduce(request.node.op)) return MakeAllReduce(request);
  PortableContext context;
  context.error = &error_;
  ASSIGN_OR_RETURN(auto kernel, MakePortableKernel(request, context));
  return std::make_unique<CheckedKernel>(std::move(kernel), request.node,
                                         &error_);
}

}  // namespace gpupool::engine::portable
