#include "engine/backends/cpu/widened.h"

#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "engine/backends/cpu/kernel/half_rows.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// A graph of its own with the request's node in float32.
struct Twin {
  Graph graph;
  std::vector<bool> stable_inputs;
};

Twin MakeTwin(const CompileRequest& request) {
  Twin twin;
  absl::flat_hash_map<int32_t, ValueId> copies;
  const auto copy = [&](ValueId id) {
    const auto found = copies.find(id.index);
    if (found != copies.end()) return found->second;
    Value value = request.graph.value(id);
    if (IsHalf(value.dtype)) value.dtype = DType::kFloat32;
    value.alias = {};
    return copies[id.index] = twin.graph.AddValue(std::move(value));
  };
  Node node = request.node;
  for (ValueId& id : node.inputs) id = copy(id);
  for (ValueId& id : node.outputs) id = copy(id);
  twin.graph.AddNode(std::move(node));
  // An operand that is converted in each run is not stable.
  twin.stable_inputs = request.stable_inputs;
  for (size_t i = 0; i < twin.stable_inputs.size(); ++i) {
    if (IsHalf(InputOf(request, i).dtype)) twin.stable_inputs[i] = false;
  }
  return twin;
}

// A 16-bit operand and its numbers as float32 in the workspace.
struct HalfOperand {
  size_t operand = 0;
  DType dtype = DType::kFloat32;
  int64_t count = 0;
  uint64_t at = 0;
  int threads = 1;
  uint16_t* half = nullptr;
  float* floats = nullptr;
};

constexpr int64_t kGrain = 1024;

class WidenedKernel : public Kernel {
 public:
  WidenedKernel(const CompileRequest& request, const CpuContext& context,
                std::unique_ptr<Twin> twin, std::unique_ptr<Kernel> inner)
      : twin_(std::move(twin)), inner_(std::move(inner)) {
    // The inner kernel's workspace comes first, then the float32 numbers.
    own_bytes_ = AlignUp(inner_->workspace_bytes());
    const auto add = [&](const ValueIds& ids, std::vector<HalfOperand>& list) {
      for (size_t i = 0; i < ids.size(); ++i) {
        const Value& value = request.graph.value(ids[i]);
        if (!IsHalf(value.dtype)) continue;
        const auto count = value.shape.elements();
        list.push_back({i, value.dtype, count, own_bytes_,
                        context.ThreadsForBytes(3 * value.bytes())});
        own_bytes_ += AlignUp(static_cast<uint64_t>(count) * sizeof(float));
      }
    };
    add(request.node.inputs, inputs_);
    add(request.node.outputs, outputs_);
  }

  uint64_t workspace_bytes() const override { return own_bytes_; }
  uint64_t resident_bytes() const override { return inner_->resident_bytes(); }
  std::string resident_format() const override {
    return inner_->resident_format();
  }

  absl::Status Bind(const KernelBuffers& buffers) override {
    KernelBuffers inner = buffers;
    Attach(inputs_, buffers.workspace, inner.inputs);
    Attach(outputs_, buffers.workspace, inner.outputs);
    return inner_->Bind(inner);
  }

  absl::Status Prepare() override { return inner_->Prepare(); }

  absl::Status Run() override {
    for (const HalfOperand& c : inputs_) {
      ParallelFor(c.threads, c.count, kGrain, [&](int64_t begin, int64_t end) {
        FloatsFromHalf(c.dtype, c.half + begin, c.floats + begin, end - begin);
      });
    }
    RETURN_IF_ERROR(inner_->Run());
    for (const HalfOperand& c : outputs_) {
      ParallelFor(c.threads, c.count, kGrain, [&](int64_t begin, int64_t end) {
        HalfFromFloats(c.dtype, c.floats + begin, c.half + begin, end - begin);
      });
    }
    return absl::OkStatus();
  }

 private:
  // Replaces the operands by the workspace's numbers.
  static void Attach(std::vector<HalfOperand>& conversions,
                     std::byte* workspace, std::vector<std::byte*>& operands) {
    for (HalfOperand& c : conversions) {
      c.half = reinterpret_cast<uint16_t*>(operands[c.operand]);
      operands[c.operand] = workspace + c.at;
      c.floats = reinterpret_cast<float*>(workspace + c.at);
    }
  }

  const std::unique_ptr<Twin> twin_;
  const std::unique_ptr<Kernel> inner_;
  uint64_t own_bytes_ = 0;
  std::vector<HalfOperand> inputs_;
  std::vector<HalfOperand> outputs_;
};

}  // namespace

KernelOr MakeWidened(const CompileRequest& request, const CpuContext& context,
                     KernelMaker make) {
  auto twin = std::make_unique<Twin>(MakeTwin(request));
  const CompileRequest widened{twin->graph, twin->graph.nodes()[0],
                               twin->stable_inputs, request.options};
  ASSIGN_OR_RETURN(auto inner, make(widened, context));
  if (inner == nullptr) return nullptr;
  return std::make_unique<WidenedKernel>(request, context, std::move(twin),
                                         std::move(inner));
}

}  // namespace gpupool::engine
