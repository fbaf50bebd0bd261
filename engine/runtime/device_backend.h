// What a device must offer to run programs: a kernel for each node. The CPU
// back end implements it; the planner asks the same kernels for their
// workspace without any memory behind them, so a plan made on the meta device
// is the plan that later runs.
//
// Thread-safety: a back end and its kernels belong to one compute thread.
// Ownership: kernels may refer to their back end, which must outlive them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/graph/graph.h"
#include "engine/runtime/device_memory.h"

namespace gpupool::engine {

// Addresses for one kernel, valid until the next Bind. All are aligned to
// kAlignmentBytes. Inputs and outputs stand in the node's order.
struct KernelBuffers {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* workspace = nullptr;  // workspace_bytes(), undefined between runs
  std::byte* resident = nullptr;   // resident_bytes(), kept between runs
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Scratch during Run and Prepare.
  virtual uint64_t workspace_bytes() const { return 0; }
  // Memory that the kernel keeps as long as the program: packed weights.
  virtual uint64_t resident_bytes() const { return 0; }
  // Names the format of that memory: kernels with the same text and the same
  // stable inputs keep the same bytes there and may share them. Empty: they
  // may not.
  virtual std::string resident_format() const { return ""; }

  // Tells the addresses; called before anything runs. May allocate.
  virtual absl::Status Bind(const KernelBuffers& buffers) = 0;
  // Called when stable inputs have been set or changed.
  virtual absl::Status Prepare() { return absl::OkStatus(); }
  // Computes the node, or queues that on the device. Allocates nothing.
  //   INVALID_ARGUMENT  the data is impossible (a label without a class);
  //                     where work is queued, FinishRun says so
  virtual absl::Status Run() = 0;
};

class Collective;

// How kernels are chosen and what they may use. Defaults: exact and fast.
struct KernelOptions {
  // GPUs: products may round float32 operands to TF32.
  bool tensor_float32 = false;
  // GPUs: measure the candidates once and take the fastest.
  bool benchmark = false;
  // GPUs: only kernels whose results are the same bits each time.
  bool deterministic = false;
  // Of the job's ranks, for all-reduces; null where nothing runs. Outlives the
  // kernels.
  Collective* collective = nullptr;
};

struct CompileRequest {
  const Graph& graph;
  const Node& node;
  // For each input: whether its bytes stay the same from one Prepare to the
  // next (weights of an inference program), so that they may be packed once.
  std::vector<bool> stable_inputs;
  KernelOptions options;
};

// The launches of a program's run in a form that a device starts faster than
// one by one: on a GPU a graph that was captured from them.
class Recording {
 public:
  virtual ~Recording() = default;
  // Queues the run.
  virtual absl::Status Start() = 0;
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  // Where tensors lie and how the host reaches them.
  virtual Transfer& transfer() { return HostMemory(); }

  // Chooses a kernel; touches no tensor memory.
  //   UNIMPLEMENTED  the op or its types are not supported; names the layer
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) = 0;
  // Called on the compute thread before kernels run.
  virtual void BeginRun() {}
  // Whether what was queued since BeginRun is done, or has failed, or is better
  // waited for; returns at once. As long as it is false, another back end of
  // the device may be used, but not this one.
  virtual bool RunIsDone() { return true; }
  // Called after kernels ran; waits for what they queued.
  //   INVALID_ARGUMENT  the data was impossible; names the layer of `graph`
  //   INTERNAL, UNAVAILABLE, RESOURCE_EXHAUSTED  the device failed
  virtual absl::Status FinishRun(const Graph& /*graph*/) {
    return absl::OkStatus();
  }
  // What `queue` queues, always on the same addresses, as one recording; null
  // where the device gains nothing by it. `queue` must outlive the recording.
  virtual std::unique_ptr<Recording> Record(
      std::function<absl::Status()> /*queue*/) {
    return nullptr;
  }
};

}  // namespace gpupool::engine
