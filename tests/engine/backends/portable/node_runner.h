// Runs a graph node by node on any back end, with numbers in and numbers out in
// the form of the reference back end. Every value has memory of its own, but
// for values that overwrite others, and what lies behind it must stay as it
// was.
#pragma once

#include "absl/status/statusor.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/graph/graph.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::testing {

// Back end that nodes run on, and its memory. Borrowed.
struct NodeDevice {
  DeviceBackend& backend;
  CachingAllocator* allocator = nullptr;  // null: the host's memory
};

// Numbers are row-major whatever the layout of the value. `persistents`
// receives the values after the run. Nodes may answer with errors, which are
// given back; a write behind a value is kInternal.
absl::StatusOr<reference::NamedNumbers> RunNodes(
    const NodeDevice& device, const Graph& graph,
    const reference::NamedNumbers& inputs,
    reference::NamedNumbers& persistents);

}  // namespace gpupool::engine::testing
