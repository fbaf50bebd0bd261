// An owned array on a device: the embedded API's currency for weights, inputs
// and results outside compiled programs. Copies between devices are explicit
// and never happen as a side effect.
//
// A Tensor is a handle: copying it shares the bytes. Handles may be used from
// several threads as long as nobody writes the bytes meanwhile.
//
// Host devices (cpu:i) hold bytes; meta holds none. Tensors of other devices
// are made by their back ends.
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
  // Zeros on a host device; only shape and type on meta.
  //   FAILED_PRECONDITION  the device has no back end here
  //   RESOURCE_EXHAUSTED   the host has not that many bytes
  static absl::StatusOr<Tensor> Zeros(const Device& device, DType dtype,
                                      const Shape& shape);
  // A copy of `bytes`, whose length must be that of the shape.
  //   INVALID_ARGUMENT     another length, or the device is meta
  static absl::StatusOr<Tensor> Copy(const Device& device, DType dtype,
                                     const Shape& shape,
                                     absl::Span<const std::byte> bytes);

  const Device& device() const { return device_; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  // 0 on meta.
  uint64_t bytes() const;

  // The contents, aligned to 64 bytes. FAILED_PRECONDITION on meta, whose
  // tensors have nothing to read.
  absl::StatusOr<absl::Span<std::byte>> data() const;

  // This very tensor when it is on `device` already, else a copy there.
  // FAILED_PRECONDITION from meta, or to a device without a back end.
  absl::StatusOr<Tensor> To(const Device& device) const;
  // Whether both handles share their bytes.
  bool Shares(const Tensor& other) const {
    return storage_ != nullptr && storage_ == other.storage_;
  }

  // "weight: float32 [10, 64] on cpu:0, 2560 bytes"
  std::string Describe(absl::string_view name) const;

 private:
  Tensor(const Device& device, DType dtype, const Shape& shape)
      : device_(device), dtype_(dtype), shape_(shape) {}

  Device device_;
  DType dtype_;
  Shape shape_;
  std::shared_ptr<std::byte> storage_;
};

}  // namespace gpupool::engine
