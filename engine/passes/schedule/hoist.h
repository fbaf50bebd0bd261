// Inference: nodes that depend on weights and constants only run once, when
// the weights are set, not with every request. Graphs that update persistent
// values are left alone. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// A result may be this many times as large as what it is made of; beyond that,
// and beyond kMaxHoistedBytes, keeping it costs more memory than it saves time.
inline constexpr uint64_t kMaxHoistedGrowth = 2;
inline constexpr uint64_t kMaxHoistedBytes = 1 << 20;

absl::Status Hoist(Graph& graph);

}  // namespace gpupool::engine
