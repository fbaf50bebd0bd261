// Islands of elementwise nodes become single kFused nodes, which read each
// input and write each result once. An island has one shape and layout,
// float32, 16-bit numbers and bool only, and stands where its last node stood;
// values that only its own nodes read need no bytes any more. Islands are not
// made where that would keep more bytes alive than it saves. Nothing is
// computed twice. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

inline constexpr size_t kMaxFusedSteps = 24;
inline constexpr size_t kMaxFusedInputs = 10;
inline constexpr size_t kMaxFusedResults = 4;

absl::Status FuseElementwise(Graph& graph);

}  // namespace gpupool::engine
