#include "engine/tensor/tensor.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Returns memory aligned to kAlignmentBytes; null when there is none.
std::shared_ptr<std::byte> AllocateHost(uint64_t bytes) {
  void* memory = std::aligned_alloc(kAlignmentBytes, AlignUp(bytes));
  if (memory == nullptr) return nullptr;
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace

absl::StatusOr<Tensor> Tensor::Zeros(const Device& device, DType dtype,
                                     const Shape& shape) {
  Tensor tensor(device, dtype, shape);
  if (device.type == DeviceType::kMeta) return tensor;
  if (device.type != DeviceType::kCpu) {
    return absl::FailedPreconditionError(absl::StrCat(
        "device ", ToString(device), " has no back end here; use cpu or meta"));
  }
  const uint64_t bytes = shape.bytes(dtype);
  tensor.storage_ = AllocateHost(bytes);
  if (tensor.storage_ == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has no ", bytes, " bytes for a tensor of shape ",
                     shape.ToString()));
  }
  std::memset(tensor.storage_.get(), 0, bytes);
  return tensor;
}

absl::StatusOr<Tensor> Tensor::Copy(const Device& device, DType dtype,
                                    const Shape& shape,
                                    absl::Span<const std::byte> bytes) {
  if (device.type == DeviceType::kMeta || bytes.size() != shape.bytes(dtype)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "cannot fill ", DTypeName(dtype), " ", shape.ToString(), " on ",
        ToString(device), " with ", bytes.size(), " bytes"));
  }
  ASSIGN_OR_RETURN(Tensor tensor, Zeros(device, dtype, shape));
  std::memcpy(tensor.storage_.get(), bytes.data(), bytes.size());
  return tensor;
}

uint64_t Tensor::bytes() const {
  return storage_ == nullptr ? 0 : shape_.bytes(dtype_);
}

absl::StatusOr<absl::Span<std::byte>> Tensor::data() const {
  if (storage_ == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("a tensor on ", ToString(device_),
                     " has shape and type but no values"));
  }
  return absl::MakeSpan(storage_.get(), bytes());
}

absl::StatusOr<Tensor> Tensor::To(const Device& device) const {
  if (device == device_) return *this;
  if (device.type == DeviceType::kMeta) return Zeros(device, dtype_, shape_);
  // Fails on meta, which has no contents to copy.
  ASSIGN_OR_RETURN(const absl::Span<std::byte> source, data());
  return Copy(device, dtype_, shape_, source);
}

std::string Tensor::Describe(absl::string_view name) const {
  return absl::StrCat(name, ": ", DTypeName(dtype_), " ", shape_.ToString(),
                      " on ", ToString(device_), ", ", bytes(), " bytes");
}

absl::Status CheckSameDevice(absl::string_view operation,
                             absl::Span<const Tensor> tensors) {
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].device() == tensors[0].device()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "Expected all tensors to be on the same device, but found at least "
        "two devices, ",
        ToString(tensors[0].device()), " and ", ToString(tensors[i].device()),
        "! (argument ", i, " of ", operation, ")"));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
