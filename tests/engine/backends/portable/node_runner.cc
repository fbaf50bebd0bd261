#include "tests/engine/backends/portable/node_runner.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/strides.h"
#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::testing {
namespace {

using reference::NamedNumbers;
using reference::Numbers;

constexpr std::byte kGuard{0xa5};
constexpr uint64_t kGuardBytes = 64;

// Aligned memory with guards behind it: a copy that the host reads and writes,
// and the device's copy, if the device has separate memory.
class Memory {
 public:
  Memory(uint64_t bytes, CachingAllocator* allocator)
      : bytes_(bytes), total_(AlignUp(bytes + kGuardBytes)) {
    host_.reset(
        static_cast<std::byte*>(std::aligned_alloc(kAlignmentBytes, total_)));
    GPUPOOL_CHECK(host_ != nullptr);
    std::fill(host_.get(), host_.get() + total_, kGuard);
    if (allocator == nullptr) return;
    absl::StatusOr<Allocation> made =
        allocator->Allocate(total_, {"test", "values"});
    GPUPOOL_CHECK(made.ok());
    device_ = *std::move(made);
  }

  std::byte* host() const { return host_.get(); }
  std::byte* data() const {
    return device_.data() == nullptr ? host_.get() : device_.data();
  }
  absl::Status Upload(Transfer& transfer) const {
    if (device_.data() == nullptr) return absl::OkStatus();
    return transfer.CopyToDevice(device_.data(), {host_.get(), total_});
  }
  absl::Status Download(Transfer& transfer) const {
    if (device_.data() == nullptr) return absl::OkStatus();
    return transfer.CopyFromDevice({host_.get(), total_}, device_.data());
  }
  bool intact() const {
    return std::all_of(host_.get() + bytes_, host_.get() + total_,
                       [](std::byte b) { return b == kGuard; });
  }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  uint64_t bytes_, total_;
  std::unique_ptr<std::byte, Free> host_;
  Allocation device_;
};

// Calls visit(i, element) for each row-major index and its place in memory.
template <typename Visitor>
void ForEachElement(const Value& value, const Visitor& visit) {
  const auto strides = MemoryStrides(value.shape, value.layout);
  for (int64_t i = 0; i < value.shape.elements(); ++i) {
    int64_t rest = i, at = 0;
    for (int axis = value.shape.rank() - 1; axis >= 0; --axis) {
      at += rest % value.shape[axis] * strides[static_cast<size_t>(axis)];
      rest /= value.shape[axis];
    }
    visit(static_cast<size_t>(i), static_cast<size_t>(at));
  }
}

class Run {
 public:
  Run(DeviceBackend& backend, const Graph& graph, CachingAllocator* allocator)
      : backend_(backend), graph_(graph), allocator_(allocator) {
    for (const Value& value : graph.values())
      memory_.emplace_back(value.bytes(), allocator);
  }

  void Write(const Value& value, const Numbers& numbers) {
    const bool one = value.kind == ValueKind::kConstant && numbers.size() == 1;
    GPUPOOL_CHECK(one || numbers.size() ==
                             static_cast<size_t>(value.shape.elements()));
    ForEachElement(value, [&](size_t i, size_t at) {
      WriteFromDoubles(value.dtype, {numbers[one ? 0 : i]}, 1,
                       MemoryOf(value.id).host() + at * SizeOf(value.dtype));
    });
  }

  Numbers Read(const Value& value) const {
    Numbers numbers(static_cast<size_t>(value.shape.elements()));
    ForEachElement(value, [&](size_t i, size_t at) {
      ReadAsDoubles(value.dtype,
                    MemoryOf(value.id).host() + at * SizeOf(value.dtype), 1,
                    absl::MakeSpan(&numbers[i], 1));
    });
    return numbers;
  }

  absl::Status RunNode(const Node& node) {
    ASSIGN_OR_RETURN(
        auto kernel,
        backend_.Compile(
            {graph_, node, std::vector<bool>(node.inputs.size(), false)}));
    const Memory workspace(kernel->workspace_bytes(), allocator_);
    const Memory resident(kernel->resident_bytes(), allocator_);
    for (const Memory* memory : {&workspace, &resident}) {
      RETURN_IF_ERROR(memory->Upload(backend_.transfer()));
    }
    KernelBuffers buffers;
    for (const ValueId id : node.inputs)
      buffers.inputs.push_back(AddressOf(id));
    for (const ValueId id : node.outputs) {
      buffers.outputs.push_back(AddressOf(id));
    }
    buffers.workspace = workspace.data();
    buffers.resident = resident.data();
    RETURN_IF_ERROR(kernel->Bind(buffers));
    RETURN_IF_ERROR(kernel->Prepare());
    RETURN_IF_ERROR(kernel->Run());
    for (const Memory* memory : {&workspace, &resident}) {
      RETURN_IF_ERROR(memory->Download(backend_.transfer()));
    }
    RETURN_IF_ERROR(DownloadAll());
    bool intact = workspace.intact() && resident.intact();
    for (const Memory& memory : memory_) intact = intact && memory.intact();
    if (intact) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat(OpName(node.op), " wrote behind its memory"));
  }

  absl::Status UploadAll() {
    for (const Memory& memory : memory_) {
      RETURN_IF_ERROR(memory.Upload(backend_.transfer()));
    }
    return absl::OkStatus();
  }
  absl::Status DownloadAll() {
    for (const Memory& memory : memory_) {
      RETURN_IF_ERROR(memory.Download(backend_.transfer()));
    }
    // The host's memory is not pinned, so its copies must be waited for.
    RETURN_IF_ERROR(backend_.transfer().Synchronize());
    return backend_.FinishRun(graph_);
  }

 private:
  const Memory& MemoryOf(ValueId id) const {
    const Alias& alias = graph_.value(id).alias;
    if (alias.kind == AliasKind::kInPlace || alias.kind == AliasKind::kUpdate) {
      return MemoryOf(alias.of);
    }
    return memory_[static_cast<size_t>(id.index)];
  }
  std::byte* AddressOf(ValueId id) const { return MemoryOf(id).data(); }

  DeviceBackend& backend_;
  const Graph& graph_;
  CachingAllocator* const allocator_;
  std::vector<Memory> memory_;
};

}  // namespace

absl::StatusOr<NamedNumbers> RunNodes(DeviceBackend& backend,
                                      const Graph& graph,
                                      const NamedNumbers& inputs,
                                      NamedNumbers& persistents,
                                      CachingAllocator* allocator) {
  Run run(backend, graph, allocator);
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kInput) {
      run.Write(value, inputs.at(value.name));
    } else if (value.kind == ValueKind::kPersistent) {
      run.Write(value, persistents.at(value.name));
    } else if (value.kind == ValueKind::kConstant) {
      run.Write(value, value.constant);
    }
  }
  RETURN_IF_ERROR(run.UploadAll());
  backend.BeginRun();
  for (const Node& node : graph.nodes()) RETURN_IF_ERROR(run.RunNode(node));
  NamedNumbers outputs;
  for (const GraphOutput& output : graph.outputs()) {
    outputs[output.name] = run.Read(graph.value(output.value));
  }
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kPersistent) {
      persistents[value.name] = run.Read(value);
    }
  }
  return outputs;
}

}  // namespace gpupool::engine::testing
