// Runs the portable kernels on the host, one element after the other. It has
// the ops of a GPU without a GPU. For tests; slow.
//
// Thread-safety: as every DeviceBackend, for one thread. Kernels refer to the
// back end, which must outlive them.
#pragma once

#include <memory>

#include "engine/backends/portable/launch/kernel_makers.h"

namespace gpupool::engine::portable {

class PortableBackend : public DeviceBackend {
 public:
  PortableBackend() = default;

  // Makes a node's kernel. When an index or a label is out of range, its run
  // fails with INVALID_ARGUMENT, which names the layer, the number and its
  // limit.
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;

 private:
  DeviceError error_;
};

}  // namespace gpupool::engine::portable
