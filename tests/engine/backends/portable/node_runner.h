// Runs a graph node by node on any back end, with numbers in and numbers out in
// the form of the reference back end. Every value has its own memory, except
// for values that overwrite others. The memory behind each value must not
// change.
#pragma once

#include "absl/status/statusor.h"
#include "engine/backends/reference/interpreter.h"
#include "engine/graph/graph.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine::testing {

// Runs the nodes. Numbers are row-major whatever the layout of the value.
// `persistents` receives the values after the run. Returns the first error of a
// node. A write behind a value is kInternal. `allocator` gives the device's
// memory; null: the host's memory.
absl::StatusOr<reference::NamedNumbers> RunNodes(
    DeviceBackend& backend, const Graph& graph,
    const reference::NamedNumbers& inputs, reference::NamedNumbers& persistents,
    CachingAllocator* allocator = nullptr);

}  // namespace gpupool::engine::testing
