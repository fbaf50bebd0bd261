#include "engine/backends/cpu/product/volume_kernel.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/backends/cpu/kernel/dnnl_kernel.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

dnnl::memory::desc ChannelsLast(const Value& volume) {
  const auto& dims = volume.shape.dims();
  return {dnnl::memory::dims(dims.begin(), dims.end()), DnnlType(volume.dtype),
          dnnl::memory::format_tag::ndhwc};
}

class VolumeKernel : public Kernel {
 public:
  VolumeKernel(const CompileRequest& request, const CpuContext& context,
               std::unique_ptr<Kernel> inner)
      : inner_(std::move(inner)),
        before_(context, context.ThreadsForBytes(MovedBytes(request))),
        after_(context, context.ThreadsForBytes(MovedBytes(request))) {
    const ScopedThreads scope(context.ThreadsForBytes(MovedBytes(request)));
    for (size_t i = 0; i < request.node.inputs.size(); ++i) {
      const Value& x = InputOf(request, i);
      if (x.shape.rank() != 5 || IsWeightInput(request.node.op, i)) continue;
      const auto desc = ChannelsLast(x);
      inputs_.push_back({i, before_.AddWorkspace(desc.get_size())});
      before_.AddReorder(When::kRun, {0, DescOf(x), Where::kInput, i},
                         {0, desc, Where::kWorkspace, inputs_.back().at});
    }
    if (IsWeightOutput(request.node.op, 0)) return;
    const Value& y = OutputOf(request, 0);
    const auto desc = ChannelsLast(y);
    output_ = after_.AddWorkspace(desc.get_size());
    after_.AddReorder(When::kRun, {0, desc, Where::kWorkspace, *output_},
                      {0, DescOf(y), Where::kOutput, 0});
  }

  uint64_t workspace_bytes() const override {
    return AfterAt() + after_.workspace_bytes();
  }
  uint64_t resident_bytes() const override { return inner_->resident_bytes(); }
  std::string resident_format() const override {
    return inner_->resident_format();
  }

  absl::Status Bind(const KernelBuffers& buffers) override {
    KernelBuffers own = buffers;
    own.workspace = buffers.workspace + BeforeAt();
    RETURN_IF_ERROR(before_.Bind(own));
    own.workspace = buffers.workspace + AfterAt();
    RETURN_IF_ERROR(after_.Bind(own));
    KernelBuffers inner = buffers;
    for (const Copy& copy : inputs_) {
      inner.inputs[copy.input] = buffers.workspace + BeforeAt() + copy.at;
    }
    if (output_.has_value()) {
      inner.outputs[0] = buffers.workspace + AfterAt() + *output_;
    }
    return inner_->Bind(inner);
  }

  absl::Status Prepare() override { return inner_->Prepare(); }

  absl::Status Run() override {
    RETURN_IF_ERROR(before_.Run());
    RETURN_IF_ERROR(inner_->Run());
    return after_.Run();
  }

 private:
  // A copy of an input, at an offset in the workspace of `before_`.
  struct Copy {
    size_t input;
    uint64_t at;
  };

  // The workspace holds that of the inner kernel, then those of the reorders.
  uint64_t BeforeAt() const { return AlignUp(inner_->workspace_bytes()); }
  uint64_t AfterAt() const {
    return BeforeAt() + AlignUp(before_.workspace_bytes());
  }

  const std::unique_ptr<Kernel> inner_;
  DnnlKernel before_, after_;
  std::vector<Copy> inputs_;
  // The copy of the output, in the workspace of `after_`.
  std::optional<uint64_t> output_;
};

}  // namespace

std::unique_ptr<Kernel> MakeOnVolumes(const CompileRequest& request,
                                      const CpuContext& context,
                                      std::unique_ptr<Kernel> inner) {
  return std::make_unique<VolumeKernel>(request, context, std::move(inner));
}

}  // namespace gpupool::engine
