#include "engine/backends/all_reduce.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/function_kernel.h"
#include "engine/base/status_macros.h"
#include "engine/collective/collective.h"

namespace gpupool::engine {
namespace {

std::vector<size_t> ElementsOf(const Graph& graph, const ValueIds& ids) {
  std::vector<size_t> elements;
  for (const ValueId id : ids) {
    elements.push_back(static_cast<size_t>(graph.value(id).shape.elements()));
  }
  return elements;
}

absl::Status NoCollective() {
  return absl::FailedPreconditionError(
      "the program was compiled without the job's other ranks; it is a plan");
}

std::unique_ptr<Kernel> MakeStart(const CompileRequest& request) {
  Collective* const collective = request.options.collective;
  return MakeKernel(
      [collective, parts = ElementsOf(request.graph, request.node.inputs)](
          const KernelArguments& arguments) -> absl::Status {
        if (collective == nullptr) return NoCollective();
        float* const flat = arguments.out(0);
        size_t filled = 0;
        for (size_t i = 0; i < parts.size(); ++i) {
          std::copy_n(arguments.in(i), parts[i], flat + filled);
          filled += parts[i];
        }
        return collective->StartAllReduce({flat, filled}).status();
      });
}

// Returns for each input of the wait how many sums the graph starts after that
// input's and before the wait. The collective's tickets are consecutive, so
// this count gives the input's ticket.
absl::StatusOr<std::vector<CollectiveTicket>> LaterStarts(const Graph& graph,
                                                          const Node& wait) {
  std::vector<CollectiveTicket> later;
  for (const ValueId flat : wait.inputs) {
    bool found = false;
    CollectiveTicket count = 0;
    for (const Node& node : graph.nodes()) {
      if (node.outputs == wait.outputs) break;
      if (node.op != Op::kAllReduceStart) continue;
      count += found ? 1 : 0;
      found = found || node.outputs[0] == flat;
    }
    if (!found) {
      return absl::InvalidArgumentError(
          absl::StrCat("input '", graph.value(flat).name,
                       "' is not the sum of an all_reduce_start before it"));
    }
    later.push_back(count);
  }
  return later;
}

// Writes the flat buffers' numbers to the outputs, one after the other.
class MeanWriter {
 public:
  MeanWriter(const KernelArguments& arguments,
             const std::vector<size_t>& outputs, int ranks)
      : arguments_(arguments),
        outputs_(outputs),
        divisor_(static_cast<float>(ranks)) {}

  void Write(const float* sums, size_t count) {
    while (count > 0) {
      const size_t part = std::min(count, outputs_[output_] - begin_);
      float* const out = arguments_.out(output_) + begin_;
      for (size_t i = 0; i < part; ++i) out[i] = sums[i] / divisor_;
      sums += part;
      count -= part;
      begin_ += part;
      if (begin_ < outputs_[output_]) continue;
      ++output_;
      begin_ = 0;
    }
  }

 private:
  const KernelArguments& arguments_;
  const std::vector<size_t>& outputs_;
  const float divisor_;
  size_t output_ = 0;
  size_t begin_ = 0;  // within that output
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeWait(
    const CompileRequest& request) {
  const Node& node = request.node;
  ASSIGN_OR_RETURN(std::vector<CollectiveTicket> later,
                   LaterStarts(request.graph, node));
  const int ranks = node.get<AllReduceAttributes>().ranks;
  return MakeKernel([collective = request.options.collective, ranks,
                     later = std::move(later),
                     flats = ElementsOf(request.graph, node.inputs),
                     outputs = ElementsOf(request.graph, node.outputs)](
                        const KernelArguments& arguments) -> absl::Status {
    if (collective == nullptr) return NoCollective();
    // Tickets go on from step to step, so they are counted back from the
    // newest.
    const CollectiveTicket newest = collective->newest();
    MeanWriter means(arguments, outputs, ranks);
    for (size_t i = 0; i < flats.size(); ++i) {
      RETURN_IF_ERROR(collective->Wait(newest - later[i]));
      means.Write(arguments.in(i), flats[i]);
    }
    return absl::OkStatus();
  });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> MakeAllReduce(
    const CompileRequest& request) {
  const int ranks = request.node.get<AllReduceAttributes>().ranks;
  const Collective* collective = request.options.collective;
  if (collective != nullptr && collective->size() != ranks) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a sum over ", ranks, " ranks in a group of ", collective->size()));
  }
  if (request.node.op == Op::kAllReduceStart) return MakeStart(request);
  return MakeWait(request);
}

}  // namespace gpupool::engine
