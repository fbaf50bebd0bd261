// Attention and its gradient in all forms: types, masks of every broadcast
// shape, the causal rule, queries that see no key.
#pragma once

#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::testing {

struct AttentionSizes {
  int64_t batch = 2, heads = 2, queries = 8, keys = 8, depth = 8, width = 8;
};

struct AttentionCase {
  AttentionSizes sizes = {};
  DType type = DType::kFloat32;
  bool causal = false;
  // Letters for batch, heads, queries and keys, with 1 where the mask repeats;
  // empty: no mask. "BHTS" repeats along none of them, "11TS" along the first
  // two.
  std::string mask = {};
  // Whether the mask hides all keys from the second query.
  bool blind = false;

  std::string Text() const;
};

// Returns a graph with inputs q, k, v, dy and, if the case has one, mask, and
// with outputs y, lse, dq, dk and dv. Node 0 is the attention, node 1 its
// gradient.
Graph AttentionGraph(const AttentionCase& at);

// Returns all forms in one type, with small sizes.
std::vector<AttentionCase> AttentionCases(DType type);

// Runs the graph with random numbers on the back end and on the reference. A
// third of the mask is -infinity. Expects the same numbers within the
// tolerance, and exact zeros for blind queries.
void ExpectAttentionAgrees(const AttentionCase& at, DeviceBackend& backend,
                           double tolerance,
                           CachingAllocator* allocator = nullptr);

}  // namespace gpupool::engine::testing
