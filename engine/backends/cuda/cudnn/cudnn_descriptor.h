// One object of cuDNN's backend interface, given back when it goes.
//
// Attributes are set without looking at each call: the first error stays, later
// calls do nothing, and Finalize tells.
// Thread-safety: one thread at a time. The functions must outlive it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/backends/cuda/cudnn/cudnn_functions.h"

namespace gpupool::engine::cuda {

class CudnnDescriptor {
 public:
  CudnnDescriptor() = default;  // none
  CudnnDescriptor(const CudnnFunctions* functions,
                  cudnnBackendDescriptorType_t type);
  CudnnDescriptor(CudnnDescriptor&& other) noexcept {
    *this = std::move(other);
  }
  CudnnDescriptor& operator=(CudnnDescriptor&& other) noexcept;
  ~CudnnDescriptor();

  cudnnBackendDescriptor_t get() const { return descriptor_; }
  const absl::Status& status() const { return error_; }

  void Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
           int64_t count, const void* values);
  void SetInteger(cudnnBackendAttributeName_t name, int64_t value);
  void SetIntegers(cudnnBackendAttributeName_t name,
                   absl::Span<const int64_t> values);
  void SetFlag(cudnnBackendAttributeName_t name, bool value);
  void SetFloat(cudnnBackendAttributeName_t name, float value);
  void SetDouble(cudnnBackendAttributeName_t name, double value);
  void SetType(cudnnBackendAttributeName_t name, cudnnDataType_t value);
  void SetDescriptor(cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t value);
  void SetDescriptors(cudnnBackendAttributeName_t name,
                      absl::Span<const cudnnBackendDescriptor_t> values);

  // The first error of all, `what` in front.
  absl::Status Finalize(absl::string_view what);

  absl::StatusOr<int64_t> Integer(cudnnBackendAttributeName_t name) const;
  absl::StatusOr<std::string> Text(cudnnBackendAttributeName_t name) const;
  // Fills `into`, which is of the attribute's descriptor type.
  absl::Status Get(cudnnBackendAttributeName_t name,
                   CudnnDescriptor& into) const;
  // At most `most` values of an enumeration.
  template <typename T>
  absl::StatusOr<std::vector<T>> Values(cudnnBackendAttributeName_t name,
                                        cudnnBackendAttributeType_t type,
                                        int64_t most) const {
    std::vector<T> values(static_cast<size_t>(most));
    int64_t found = 0;
    absl::Status status = GetRaw(name, type, most, found, values.data());
    if (!status.ok()) return status;
    values.resize(static_cast<size_t>(found < most ? found : most));
    return values;
  }

 private:
  absl::Status GetRaw(cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type, int64_t asked,
                      int64_t& found, void* values) const;

  const CudnnFunctions* functions_ = nullptr;
  cudnnBackendDescriptor_t descriptor_ = nullptr;
  absl::Status error_;
};

}  // namespace gpupool::engine::cuda
