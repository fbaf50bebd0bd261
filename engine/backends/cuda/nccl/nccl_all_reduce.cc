#include "engine/backends/cuda/nccl/nccl_all_reduce.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/driver/cuda_status.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/plan_only.h"

namespace gpupool::engine::cuda {
namespace {

std::vector<uint64_t> BytesOf(const Graph& graph, const ValueIds& ids) {
  std::vector<uint64_t> bytes;
  for (const ValueId id : ids) bytes.push_back(graph.value(id).bytes());
  return bytes;
}

absl::Status QueueCopy(std::byte* to, const std::byte* from, uint64_t bytes,
                       const Stream& stream) {
  return StatusOf(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice,
                                  stream.handle()),
                  "copying gradients");
}

// Copies gradients into a flat buffer, then queues their mean over the ranks.
class StartKernel : public Kernel {
 public:
  StartKernel(std::shared_ptr<NcclGroup> group, const Stream* compute,
              std::vector<uint64_t> parts, Event begin,
              std::shared_ptr<Event> done)
      : group_(std::move(group)),
        compute_(compute),
        parts_(std::move(parts)),
        begin_(std::move(begin)),
        done_(std::move(done)) {}

  absl::Status Bind(const KernelBuffers& buffers) override {
    buffers_ = buffers;
    return absl::OkStatus();
  }
  absl::Status Run() override {
    uint64_t filled = 0;
    for (size_t i = 0; i < parts_.size(); ++i) {
      RETURN_IF_ERROR(QueueCopy(buffers_.outputs[0] + filled,
                                buffers_.inputs[i], parts_[i], *compute_));
      filled += parts_[i];
    }
    return group_->QueueMean(reinterpret_cast<float*>(buffers_.outputs[0]),
                             filled / sizeof(float), begin_, *done_);
  }

 private:
  const std::shared_ptr<NcclGroup> group_;
  const Stream* const compute_;
  const std::vector<uint64_t> parts_;
  Event begin_;
  const std::shared_ptr<Event> done_;
  KernelBuffers buffers_;
};

// Waits for the sums, then copies them to the outputs.
class WaitKernel : public Kernel {
 public:
  WaitKernel(const Stream* compute, std::vector<std::shared_ptr<Event>> sums,
             std::vector<uint64_t> flats, std::vector<uint64_t> outputs)
      : compute_(compute),
        sums_(std::move(sums)),
        flats_(std::move(flats)),
        outputs_(std::move(outputs)) {}

  absl::Status Bind(const KernelBuffers& buffers) override {
    buffers_ = buffers;
    return absl::OkStatus();
  }
  // Copies the flat buffers' bytes to the outputs, one after the other.
  absl::Status Run() override {
    size_t output = 0;
    uint64_t written = 0;  // within that output
    for (size_t flat = 0; flat < flats_.size(); ++flat) {
      RETURN_IF_ERROR(sums_[flat]->Await(*compute_));
      for (uint64_t read = 0; read < flats_[flat];) {
        const uint64_t part =
            std::min(flats_[flat] - read, outputs_[output] - written);
        RETURN_IF_ERROR(QueueCopy(buffers_.outputs[output] + written,
                                  buffers_.inputs[flat] + read, part,
                                  *compute_));
        read += part;
        written += part;
        if (written < outputs_[output]) continue;
        ++output;
        written = 0;
      }
    }
    return absl::OkStatus();
  }

 private:
  const Stream* const compute_;
  const std::vector<std::shared_ptr<Event>> sums_;
  const std::vector<uint64_t> flats_, outputs_;
  KernelBuffers buffers_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<NcclGroup>> NcclAllReduce::Join(
    const CompileRequest& request) {
  Collective* const collective = request.options.collective;
  const int ranks = request.node.get<AllReduceAttributes>().ranks;
  if (collective->size() != ranks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a sum over ", ranks, " ranks in a group of ", collective->size()));
  }
  std::shared_ptr<NcclGroup> group = group_.lock();
  // The collective identifies the job: its kernels share one group.
  if (group != nullptr && joined_ == collective) return group;
  ASSIGN_OR_RETURN(group, NcclGroup::Join(functions_, collective, place_));
  group_ = group;
  joined_ = collective;
  return group;
}

absl::StatusOr<std::unique_ptr<Kernel>> NcclAllReduce::MakeKernel(
    const CompileRequest& request) {
  if (request.options.collective == nullptr) {
    // A planner joins no group.
    return std::make_unique<PlanOnlyKernel>(KernelSizes{});
  }
  ASSIGN_OR_RETURN(std::shared_ptr<NcclGroup> group, Join(request));
  const Graph& graph = request.graph;
  const Node& node = request.node;
  // Values of another graph may have the same numbers.
  if (graph_ != &graph) sums_.clear();
  graph_ = &graph;
  if (node.op == Op::kAllReduceStart) {
    ASSIGN_OR_RETURN(Event begin, Event::Create());
    ASSIGN_OR_RETURN(Event done, Event::Create());
    auto sum = std::make_shared<Event>(std::move(done));
    sums_[node.outputs[0].index] = sum;
    return std::make_unique<StartKernel>(std::move(group), place_.compute,
                                         BytesOf(graph, node.inputs),
                                         std::move(begin), std::move(sum));
  }
  std::vector<std::shared_ptr<Event>> sums;
  for (const ValueId flat : node.inputs) {
    const auto found = sums_.find(flat.index);
    if (found == sums_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", graph.value(flat).name,
                       "' is not the sum of an all_reduce_start before it"));
    }
    sums.push_back(found->second);
  }
  return std::make_unique<WaitKernel>(place_.compute, std::move(sums),
                                      BytesOf(graph, node.inputs),
                                      BytesOf(graph, node.outputs));
}

}  // namespace gpupool::engine::cuda
