// A graph compiled for one device: a kernel for each node, and a planned place
// for every byte. A Program owns no tensor memory. The meta device plans by
// compiling one, and an Executor runs the same one, so planned and measured
// bytes agree.
//
// Movable; belongs to one compute thread. The back end must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/graph/graph.h"
#include "engine/plan/liveness.h"
#include "engine/plan/report.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

// A node that has work to do; views have none.
struct Launch {
  int node = 0;  // position in graph().nodes()
  std::unique_ptr<Kernel> kernel;
  uint64_t workspace_offset = 0;  // in the arena
  int resident = -1;              // in bytes().residents; -1: none
};

class Program {
 public:
  // Compiles a verified graph. Returns errors of the back end with the layer's
  // name.
  static absl::StatusOr<Program> Compile(Graph graph, DeviceBackend* backend,
                                         const KernelOptions& options = {});
  Program(Program&&) = default;
  Program& operator=(Program&&) = default;

  const Graph& graph() const { return graph_; }
  DeviceBackend& backend() const { return *backend_; }
  const ProgramBytes& bytes() const { return bytes_; }

  const Liveness& liveness() const { return liveness_; }
  // Returns the offset of an arena buffer, or the position of a resident one in
  // bytes().residents. `buffer` is an index in liveness().buffers. Meaningless
  // for persistent buffers.
  uint64_t buffer_offset(int buffer) const {
    return offsets_[static_cast<size_t>(buffer)];
  }
  // Returns the launches in execution order; load nodes first.
  std::vector<Launch>& launches() { return launches_; }
  const std::vector<Launch>& launches() const { return launches_; }
  size_t load_launches() const { return load_launches_; }

 private:
  Program() = default;
  absl::Status SelectKernels(const KernelOptions& options);
  // INVALID_ARGUMENT when sums of bytes could overflow; names the value.
  absl::Status CheckTotal() const;
  absl::Status PlanArena();
  void PlaceResidents();

  Graph graph_;
  DeviceBackend* backend_ = nullptr;
  Liveness liveness_;
  std::vector<uint64_t> offsets_;
  std::vector<Launch> launches_;
  size_t load_launches_ = 0;
  ProgramBytes bytes_;
};

}  // namespace gpupool::engine
