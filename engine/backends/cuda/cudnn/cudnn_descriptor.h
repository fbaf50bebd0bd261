// An object of cuDNN's backend interface. The destructor destroys it.
//
// Set calls return no status. The first error is kept, later calls do nothing,
// and Finalize returns the error.
//
// Thread-safety: one thread at a time. The functions must outlive the object.
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
  CudnnDescriptor() = default;  // holds no object
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

  // Returns the first error of all calls, prefixed with `what`.
  absl::Status Finalize(absl::string_view what);

  absl::StatusOr<int64_t> Integer(cudnnBackendAttributeName_t name) const;
  absl::StatusOr<std::string> Text(cudnnBackendAttributeName_t name) const;
  // Fills `into`, whose type must be the attribute's descriptor type.
  absl::Status Get(cudnnBackendAttributeName_t name,
                   CudnnDescriptor& into) const;
  // Returns at most `most` values of an attribute that is a list of an
  // enumeration.
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
