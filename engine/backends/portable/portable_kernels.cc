// The family that makes the kernel of an op: the column `portable` of the
// table.
#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/launch/maker.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::portable {
namespace {

using Maker = KernelOr (*)(const CompileRequest&, const PortableContext&);

constexpr std::array<Maker, kOpCount> kMakers = {
#define GPUPOOL_OP(op, name, inputs, outputs, attributes, type_rule, layout,   \
                   in_place, traits, cost, autocast, gradient, reference, cpu, \
                   cpu_types, portable, ...)                                   \
  portable,
#include "engine/graph/op_table.inc"
};

bool AllOutputsEmpty(const CompileRequest& request) {
  const ValueIds& outputs = request.node.outputs;
  return std::all_of(outputs.begin(), outputs.end(), [&](ValueId id) {
    return request.graph.value(id).shape.elements() == 0;
  });
}

}  // namespace

KernelOr MakePortableKernel(const CompileRequest& request,
                            const PortableContext& context) {
  // No family then has to handle empty outputs.
  if (AllOutputsEmpty(request)) {
    return MakeKernel([](const KernelArguments&) {});
  }
  const Node& node = request.node;
  const Maker make = kMakers[static_cast<size_t>(node.op)];
  if (make != nullptr) {
    ASSIGN_OR_RETURN(auto kernel, make(request, context));
    // A family returns null for a node beyond its limits.
    if (kernel != nullptr) return kernel;
  }
  return absl::UnimplementedError(absl::StrCat(
      "no portable kernel for ", OpName(node.op), " of '", node.source,
      "' with ", DTypeName(OutputOf(request, 0).dtype), " results"));
}

}  // namespace gpupool::engine::portable
