// The portable kernels on the host, one element after the other: the op set of
// a GPU where there is none. For tests; slow.
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

  // Kernels answer INVALID_ARGUMENT with the layer, the number and its limit
  // when an index or a label lies outside.
  absl::StatusOr<std::unique_ptr<Kernel>> Compile(
      const CompileRequest& request) override;

 private:
  DeviceError error_;
};

}  // namespace gpupool::engine::portable
