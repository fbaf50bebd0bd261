// Turns islands of elementwise nodes into single kFused nodes, which read each
// input and write each result once. Nothing is computed twice. Pure.
//
// An island has one shape and one layout, and only float32, 16-bit numbers and
// bool. It is placed where its last node was. Values that only its own nodes
// read need no memory any more. An island is not made if it would keep more
// bytes alive than it saves.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

inline constexpr size_t kMaxFusedSteps = 24;
inline constexpr size_t kMaxFusedInputs = 10;
inline constexpr size_t kMaxFusedResults = 4;

absl::Status FuseElementwise(Graph& graph);

}  // namespace gpupool::engine
