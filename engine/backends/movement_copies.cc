#include "engine/backends/movement_copies.h"

#include <utility>

#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

std::vector<int64_t> DimsOf(const Shape& shape) {
  return {shape.dims().begin(), shape.dims().end()};
}

// An input and the output with their strides, and the output's axes in memory
// order.
struct Sides {
  const Value& x;
  const Value& y;
  std::vector<int64_t> from, to;
  std::vector<int> order;

  Sides(const Graph& graph, const Node& node, size_t input = 0)
      : x(graph.value(node.inputs[input])),
        y(graph.value(node.outputs[0])),
        from(MemoryStrides(x.shape, x.layout)),
        to(MemoryStrides(y.shape, y.layout)),
        order(MemoryOrder(y.shape.rank(), y.layout)) {}
};

// Returns loops over axes of `sizes` cells in the target's memory order, with
// each axis' strides in the source and in the target.
LoopNest LoopsOver(const Sides& s, const std::vector<int64_t>& sizes,
                   const std::vector<int64_t>& from,
                   const std::vector<int64_t>& to) {
  LoopNest loops;
  loops.strides.resize(2);
  for (const int axis : s.order) {
    const auto i = static_cast<size_t>(axis);
    loops.sizes.push_back(sizes[i]);
    loops.strides[0].push_back(from[i]);
    loops.strides[1].push_back(to[i]);
  }
  return loops;
}

LoopNest TransposeLoops(const Sides& s, const TransposeAttributes& transpose) {
  std::vector<int64_t> from;
  for (const int axis : transpose.permutation) {
    from.push_back(s.from[static_cast<size_t>(axis)]);
  }
  return LoopsOver(s, DimsOf(s.y.shape), from, s.to);
}

// Returns a copy between the region of a slice in one value and all of another.
StridedCopy SliceCopy(const Sides& s, const SliceAttributes& slice,
                      bool gradient) {
  std::vector<int64_t> walk = gradient ? s.to : s.from;
  int64_t first = 0;
  for (size_t i = 0; i < walk.size(); ++i) {
    first += walk[i] * slice.starts[i];
    walk[i] *= slice.steps[i];
  }
  if (gradient) return {0, 0, first, LoopsOver(s, slice.sizes, s.from, walk)};
  return {0, first, 0, LoopsOver(s, slice.sizes, walk, s.to)};
}

// Returns the region that `unpadded` takes in the padded value.
SliceAttributes Inside(const PadAttributes& pad, const Shape& unpadded) {
  return {pad.before, std::vector<int64_t>(pad.before.size(), 1),
          DimsOf(unpadded)};
}

std::vector<StridedCopy> ConcatCopies(const Graph& graph, const Node& node) {
  const int axis = node.get<AxisAttributes>().axis;
  std::vector<StridedCopy> copies;
  int64_t offset = 0;
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    const Sides s(graph, node, i);
    copies.push_back({i, 0, offset * s.to[static_cast<size_t>(axis)],
                      LoopsOver(s, DimsOf(s.x.shape), s.from, s.to)});
    offset += s.x.shape[axis];
  }
  return copies;
}

}  // namespace

std::optional<MovementCopies> CopiesOf(const Graph& graph, const Node& node) {
  const Sides s(graph, node);
  const auto* pad = std::get_if<PadAttributes>(&node.attributes);
  // Other modes repeat numbers, so they are no copies.
  if (pad != nullptr && pad->mode != PadMode::kConstant) return std::nullopt;
  switch (node.op) {
    case Op::kReshape: {  // in row-major order, so one linear copy
      const LoopNest loops = {{s.y.shape.elements()}, {{1}, {1}}};
      return MovementCopies{std::nullopt, {{0, 0, 0, loops}}};
    }
    case Op::kLayoutConvert:
      return MovementCopies{
          std::nullopt,
          {{0, 0, 0, LoopsOver(s, DimsOf(s.y.shape), s.from, s.to)}}};
    case Op::kBroadcast:
      return MovementCopies{std::nullopt,
                            {{0, 0, 0, BroadcastLoops({&s.x}, s.y)}}};
    case Op::kTranspose:
      return MovementCopies{
          std::nullopt,
          {{0, 0, 0, TransposeLoops(s, node.get<TransposeAttributes>())}}};
    case Op::kSlice:
      return MovementCopies{std::nullopt,
                            {SliceCopy(s, node.get<SliceAttributes>(), false)}};
    case Op::kSliceGrad:
      // A step may skip cells, so all are filled with 0 first.
      return MovementCopies{
          0, {SliceCopy(s, node.get<SliceGradAttributes>().slice, true)}};
    case Op::kPad:
      return MovementCopies{pad->value,
                            {SliceCopy(s, Inside(*pad, s.x.shape), true)}};
    case Op::kPadGrad:
      return MovementCopies{std::nullopt,
                            {SliceCopy(s, Inside(*pad, s.y.shape), false)}};
    default:
      GPUPOOL_CHECK(node.op == Op::kConcat);
      return MovementCopies{std::nullopt, ConcatCopies(graph, node)};
  }
}

}  // namespace gpupool::engine
