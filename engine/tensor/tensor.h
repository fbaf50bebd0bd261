// An owned array on a device. The embedded API uses it for weights, inputs and
// results outside of compiled programs. Copies between devices are explicit and
// never a side effect.
//
// A Tensor is a handle: copying it shares the bytes. Several threads may use
// handles while nobody writes the bytes.
//
// Host devices (cpu:i) hold bytes; meta holds none. Back ends make the tensors
// of other devices.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/tensor/device.h"
#include "engine/tensor/dtype.h"
#include "engine/tensor/shape.h"

namespace gpupool::engine {

class Tensor {
 public:
  // Returns zeros on a host device; shape and type only on meta.
  //   FAILED_PRECONDITION  the device has no back end here
  //   RESOURCE_EXHAUSTED   the host has not that many bytes
  static absl::StatusOr<Tensor> Zeros(const Device& device, DType dtype,
                                      const Shape& shape);
  // Returns a copy of `bytes`, whose length must match the shape.
  //   INVALID_ARGUMENT     another length, or the device is meta
  static absl::StatusOr<Tensor> Copy(const Device& device, DType dtype,
                                     const Shape& shape,
                                     absl::Span<const std::byte> bytes);

  const Device& device() const { return device_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  // Returns the bytes of the contents; 0 on meta.
  uint64_t bytes() const;

  // Returns the contents, aligned to 64 bytes. FAILED_PRECONDITION on meta,
  // whose tensors have no contents.
  absl::StatusOr<absl::Span<std::byte>> data() const;

  // Returns this tensor if it is on `device`, else a copy there.
  // FAILED_PRECONDITION from meta, or to a device without a back end.
  absl::StatusOr<Tensor> To(const Device& device) const;
  // Returns whether both handles share their bytes.
  bool Shares(const Tensor& other) const {
    return storage_ != nullptr && storage_ == other.storage_;
  }

  // Returns "weight: float32 [10, 64] on cpu:0, 2560 bytes".
  std::string Describe(absl::string_view name) const;

 private:
  Tensor(const Device& device, DType dtype, const Shape& shape)
      : device_(device), dtype_(dtype), shape_(shape) {}

  Device device_;
  DType dtype_;
  Shape shape_;
  std::shared_ptr<std::byte> storage_;
};

// Returns INVALID_ARGUMENT unless all tensors are on one device. The text is
// PyTorch's, with the operation and the argument added.
absl::Status CheckSameDevice(absl::string_view operation,
                             absl::Span<const Tensor> tensors);

}  // namespace gpupool::engine
