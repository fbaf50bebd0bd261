#include "engine/backends/cpu/fallback.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/backends/reference/kernels.h"
#include "engine/base/align.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

// An operand's bytes and its numbers in row-major order.
struct Conversion {
  DType dtype = DType::kFloat32;
  // A channels-last value has several channels. Any other counts as one long
  // image.
  int64_t images = 1, channels = 1, cells = 1;
  uint64_t at = 0;  // of `numbers` in the workspace
  std::byte* bytes = nullptr;
  absl::Span<double> numbers;

  int64_t count() const { return images * channels * cells; }

  // Calls visit(bytes of the channel's first cell, its numbers) for each
  // channel.
  template <typename Visitor>
  void ForEachChannel(const Visitor& visit) const {
    for (int64_t i = 0; i < images * channels; ++i) {
      const int64_t image = i / channels;
      const int64_t first = image * channels * cells + i % channels;
      visit(bytes + static_cast<uint64_t>(first) * SizeOf(dtype),
            numbers.subspan(static_cast<size_t>(i * cells),
                            static_cast<size_t>(cells)));
    }
  }
};

Conversion ConversionOf(const Value& value, uint64_t* workspace_bytes) {
  Conversion conversion;
  conversion.dtype = value.dtype;
  conversion.cells = value.shape.elements();
  if (value.layout == Layout::kChannelsLast && value.shape.rank() == 4) {
    conversion.images = value.shape[0];
    conversion.channels = value.shape[1];
    conversion.cells = value.shape[2] * value.shape[3];
  }
  conversion.at = *workspace_bytes;
  *workspace_bytes +=
      AlignUp(static_cast<uint64_t>(value.shape.elements()) * sizeof(double));
  return conversion;
}

class FallbackKernel : public Kernel {
 public:
  explicit FallbackKernel(const CompileRequest& request)
      : node_(request.node),
        operands_{.node = node_,
                  .input_types = request.graph.InputTypes(node_),
                  .output_types = request.graph.OutputTypes(node_)} {
    for (const ValueId id : node_.inputs) {
      inputs_.push_back(
          ConversionOf(request.graph.value(id), &workspace_bytes_));
    }
    for (const ValueId id : node_.outputs) {
      outputs_.push_back(
          ConversionOf(request.graph.value(id), &workspace_bytes_));
    }
  }

  uint64_t workspace_bytes() const override { return workspace_bytes_; }

  absl::Status Bind(const KernelBuffers& buffers) override {
    operands_.inputs.clear();
    operands_.outputs.clear();
    for (size_t i = 0; i < inputs_.size(); ++i) {
      Attach(inputs_[i], buffers.inputs[i], buffers.workspace);
      operands_.inputs.emplace_back(inputs_[i].numbers);
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      Attach(outputs_[i], buffers.outputs[i], buffers.workspace);
      operands_.outputs.push_back(outputs_[i].numbers);
    }
    return absl::OkStatus();
  }

  absl::Status Run() override {
    for (const Conversion& input : inputs_) {
      input.ForEachChannel(
          [&](const std::byte* bytes, absl::Span<double> numbers) {
            ReadAsDoubles(input.dtype, bytes, input.channels, numbers);
          });
    }
    // Reference kernels expect zeros in their outputs.
    for (const Conversion& output : outputs_) {
      std::fill(output.numbers.begin(), output.numbers.end(), 0.0);
    }
    absl::Status status = reference::RunKernel(operands_);
    if (!status.ok()) return status;
    for (const Conversion& output : outputs_) {
      output.ForEachChannel([&](std::byte* bytes, absl::Span<double> numbers) {
        WriteFromDoubles(output.dtype, numbers, output.channels, bytes);
      });
    }
    return absl::OkStatus();
  }

 private:
  static void Attach(Conversion& conversion, std::byte* bytes,
                     std::byte* workspace) {
    conversion.bytes = bytes;
    conversion.numbers = {reinterpret_cast<double*>(workspace + conversion.at),
                          static_cast<size_t>(conversion.count())};
  }

  // A copy, since operands_ refers to it and the request does not last.
  const Node node_;
  reference::Operands operands_;
  uint64_t workspace_bytes_ = 0;
  std::vector<Conversion> inputs_;
  std::vector<Conversion> outputs_;
};

}  // namespace

KernelOr MakeFallback(const CompileRequest& request) {
  return std::make_unique<FallbackKernel>(request);
}

}  // namespace gpupool::engine
