// The interface of a device that runs programs: a kernel for each node. The
// planner asks the same kernels for their workspace without any memory, so a
// plan made on the meta device is the plan that later runs.
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
// kAlignmentBytes. Inputs and outputs are in the node's order.
struct KernelBuffers {
  std::vector<std::byte*> inputs;
  std::vector<std::byte*> outputs;
  std::byte* workspace = nullptr;  // workspace_bytes(), undefined between runs
  std::byte* resident = nullptr;   // resident_bytes(), kept between runs
};

class Kernel {
 public:
  virtual ~Kernel() = default;

  // Returns the bytes of scratch during Run and Prepare.
  virtual uint64_t workspace_bytes() const { return 0; }
  // Returns the bytes that the kernel keeps as long as the program, such as
  // packed weights.
  virtual uint64_t resident_bytes() const { return 0; }
  // Returns a name for the format of the resident memory. Kernels with the same
  // name and the same stable inputs keep the same bytes and may share them. An
  // empty name forbids that.
  virtual std::string resident_format() const { return ""; }

  // Sets the addresses; called before anything runs. May allocate.
  virtual absl::Status Bind(const KernelBuffers& buffers) = 0;
  // Updates resident memory. Called when stable inputs were set or changed.
  virtual absl::Status Prepare() { return absl::OkStatus(); }
  // Computes the node, or queues that on the device. Allocates nothing.
  //   INVALID_ARGUMENT  the data is impossible (a label without a class); if
  //                     work is queued, FinishRun returns this
  virtual absl::Status Run() = 0;
};

class Collective;

// The choice of kernels and what they may use. The defaults are exact and fast.
struct KernelOptions {
  // GPUs: lets products round float32 operands to TF32.
  bool tensor_float32 = false;
  // GPUs: measures the candidates once and takes the fastest.
  bool benchmark = false;
  // GPUs: takes only kernels that give the same bits each time.
  bool deterministic = false;
  // The collective of the job's ranks, for all-reduces; null in plans. It
  // outlives the kernels.
  Collective* collective = nullptr;
};

struct CompileRequest {
  const Graph& graph;
  const Node& node;
  // For each input whether its bytes stay the same between two Prepare calls
  // (weights of an inference program), so that they may be packed once.
  std::vector<bool> stable_inputs;
  KernelOptions options;
};

// The launches of a program's run in a form that a device starts faster than
// one by one: on a GPU a captured graph.
class Recording {
 public:
  virtual ~Recording() = default;
  // Queues the run.
  virtual absl::Status Start() = 0;
};

class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;

  // Returns the transfer that reaches the device's tensors.
  virtual Transfer& transfer() { return HostMemory(); }

  // Chooses a kernel without touching tensor memory.
  //   UNIMPLEMENTED  the op or its types are not supported; names the layer
  virtual absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) = 0;
  // Prepares a run. Called on the compute thread before kernels run.
  virtual void BeginRun() {}
  // Returns at once whether the work queued since BeginRun is done, has failed,
  // or should now be waited for. While it returns false, another back end of
  // the device may be used, but not this one.
  virtual bool RunIsDone() { return true; }
  // Waits for the work that kernels queued. Called after they ran.
  //   INVALID_ARGUMENT  the data was impossible; names the layer of `graph`
  //   INTERNAL, UNAVAILABLE, RESOURCE_EXHAUSTED  the device failed
  virtual absl::Status FinishRun(const Graph& /*graph*/) {
    return absl::OkStatus();
  }
  // Returns a recording of what `queue` queues, which must use the same
  // addresses each time. Returns null if the device gains nothing by it.
  // `queue` must outlive the recording.
  virtual std::unique_ptr<Recording> Record(
      std::function<absl::Status()> /*queue*/) {
    return nullptr;
  }
  // Returns whether convolutions of 8-bit codes are faster than those of
  // float32, so that quantised models should run in integers.
  virtual bool PrefersIntegerProducts() const { return false; }
};

}  // namespace gpupool::engine
