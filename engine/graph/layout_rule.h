// The layout rule of a node. It is the rule of its op, with two exceptions. Ops
// that broadcast or reduce have layouts only if the result, or the reduced
// input, is an image. A gather has layouts if it chooses cells along an axis of
// an image. Pure.
#pragma once

#include "engine/graph/graph.h"

namespace gpupool::engine {

LayoutRule LayoutRuleOf(const Graph& graph, const Node& node);

// Returns whether the input may have another layout than the node's other
// images: it broadcasts, and its bytes are the same in every layout.
bool TakesEitherLayout(const Graph& graph, const Node& node, size_t input);

// A transpose between an image [N, C, H, W] and the row-major value [N, H, W,
// C]. The image may have either layout. If it is channels-last, both values are
// the same bytes.
enum class CellMove : uint8_t { kNone, kFromImage, kToImage };

CellMove CellMoveOf(const Node& node);

// Returns whether the node is such a transpose and its image is channels-last.
bool KeepsCells(const Graph& graph, const Node& node);

}  // namespace gpupool::engine
