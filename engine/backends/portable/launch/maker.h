// Parts that kernel makers share: walks from loop nests, places for errors,
// kernels from functions. Host only.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/backends/function_kernel.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/backends/portable/launch/errors.h"
#include "engine/backends/portable/launch/kernel_makers.h"
#include "engine/backends/strides.h"
#include "engine/base/check.h"

namespace gpupool::engine::portable {

// Returns the node's position in the graph, or -1 for a node outside of the
// graph.
int32_t NodePosition(const CompileRequest& request);

inline ErrorPlace ErrorPlaceOf(const CompileRequest& request,
                               const PortableContext& context) {
  return {context.error, NodePosition(request)};
}

// Returns a walk over the nest's loops, collapsed. Operands keep their order.
// At most kMaxLoops loops remain, since values have at most as many axes.
template <int kOperands>
Walk<kOperands> WalkOf(LoopNest loops) {
  loops.Collapse();
  GPUPOOL_CHECK(loops.sizes.size() <= kMaxLoops &&
                loops.strides.size() == kOperands);
  Walk<kOperands> walk{};
  walk.loops = static_cast<int32_t>(loops.sizes.size());
  walk.wide = loops.count() > INT32_MAX;
  for (size_t loop = 0; loop < loops.sizes.size(); ++loop) {
    walk.sizes[loop] = loops.sizes[loop];
    if (!walk.wide && loops.sizes[loop] > 0) {
      walk.fast[loop] =
          FastDivisor::Of(static_cast<uint32_t>(loops.sizes[loop]));
    }
    for (size_t k = 0; k < kOperands; ++k) {
      walk.strides[k][loop] = loops.strides[k][loop];
    }
  }
  return walk;
}

// Returns the grid of positions in `sizes`, of which there are at most
// kMaxLoops.
Grid GridOf(const std::vector<int64_t>& sizes);

// A row-major value around one axis, as [before, cells, after].
struct AxisView {
  int64_t before = 1, cells = 1, after = 1;
};
AxisView AxisViewOf(const Shape& shape, int axis);

// Returns a / b, rounded up.
inline int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace gpupool::engine::portable
