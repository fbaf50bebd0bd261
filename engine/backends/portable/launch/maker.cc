#include "engine/backends/portable/launch/maker.h"

#include <functional>

namespace gpupool::engine::portable {

int32_t NodePosition(const CompileRequest& request) {
  const absl::Span<const Node> nodes = request.graph.nodes();
  const Node* node = &request.node;
  // Comparing pointers with < is only defined within one array, std::less
  // always is.
  const std::less<const Node*> before;
  if (nodes.empty() || before(node, &nodes.front()) ||
      before(&nodes.back(), node)) {
    return -1;
  }
  return static_cast<int32_t>(node - nodes.data());
}

Grid GridOf(const std::vector<int64_t>& sizes) {
  GPUPOOL_CHECK(sizes.size() <= kMaxLoops);
  Grid grid{};
  grid.axes = static_cast<int32_t>(sizes.size());
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  // FastDivisor divides numbers below 2^31 only.
  grid.wide = count > INT32_MAX;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    grid.sizes[axis] = sizes[axis];
    if (!grid.wide && sizes[axis] > 0) {
      grid.fast[axis] = FastDivisor::Of(static_cast<uint32_t>(sizes[axis]));
    }
  }
  return grid;
}

AxisView AxisViewOf(const Shape& shape, int axis) {
  AxisView view;
  view.cells = shape[axis];
  for (int i = 0; i < axis; ++i) view.before *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) view.after *= shape[i];
  return view;
}

}  // namespace gpupool::engine::portable
