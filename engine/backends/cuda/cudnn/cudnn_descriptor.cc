#include "engine/backends/cuda/cudnn/cudnn_descriptor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {

CudnnDescriptor::CudnnDescriptor(const CudnnFunctions* functions,
                                 cudnnBackendDescriptorType_t type)
    : functions_(functions) {
  error_ = functions->StatusOf(
      functions->make_descriptor(type, &descriptor_),
      absl::StrCat("making a descriptor of type ", static_cast<int>(type)));
}

// Swapping leaves the old object to the other's destructor.
CudnnDescriptor& CudnnDescriptor::operator=(CudnnDescriptor&& other) noexcept {
  std::swap(functions_, other.functions_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(error_, other.error_);
  return *this;
}

CudnnDescriptor::~CudnnDescriptor() {
  if (descriptor_ != nullptr) functions_->drop_descriptor(descriptor_);
}

void CudnnDescriptor::Set(cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t count,
                          const void* values) {
  // The first error stays. Finalize() returns it.
  if (!error_.ok()) return;
  error_ = functions_->StatusOf(
      functions_->set_attribute(descriptor_, name, type, count, values),
      absl::StrCat("setting attribute ", static_cast<int>(name)));
}

void CudnnDescriptor::SetInteger(cudnnBackendAttributeName_t name,
                                 int64_t value) {
  Set(name, CUDNN_TYPE_INT64, 1, &value);
}

void CudnnDescriptor::SetIntegers(cudnnBackendAttributeName_t name,
                                  absl::Span<const int64_t> values) {
  Set(name, CUDNN_TYPE_INT64, static_cast<int64_t>(values.size()),
      values.data());
}

void CudnnDescriptor::SetFlag(cudnnBackendAttributeName_t name, bool value) {
  Set(name, CUDNN_TYPE_BOOLEAN, 1, &value);
}

void CudnnDescriptor::SetFloat(cudnnBackendAttributeName_t name, float value) {
  Set(name, CUDNN_TYPE_FLOAT, 1, &value);
}

void CudnnDescriptor::SetDouble(cudnnBackendAttributeName_t name,
                                double value) {
  Set(name, CUDNN_TYPE_DOUBLE, 1, &value);
}

void CudnnDescriptor::SetType(cudnnBackendAttributeName_t name,
                              cudnnDataType_t value) {
  Set(name, CUDNN_TYPE_DATA_TYPE, 1, &value);
}

void CudnnDescriptor::SetDescriptor(cudnnBackendAttributeName_t name,
                                    cudnnBackendDescriptor_t value) {
  Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &value);
}

void CudnnDescriptor::SetDescriptors(
    cudnnBackendAttributeName_t name,
    absl::Span<const cudnnBackendDescriptor_t> values) {
  Set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, static_cast<int64_t>(values.size()),
      values.data());
}

absl::Status CudnnDescriptor::Finalize(absl::string_view what) {
  if (error_.ok()) {
    error_ = functions_->StatusOf(functions_->finalize(descriptor_), what);
    return error_;
  }
  error_ =
      absl::Status(error_.code(), absl::StrCat(what, ": ", error_.message()));
  return error_;
}

absl::Status CudnnDescriptor::GetRaw(cudnnBackendAttributeName_t name,
                                     cudnnBackendAttributeType_t type,
                                     int64_t asked, int64_t& found,
                                     void* values) const {
  return functions_->StatusOf(
      functions_->get_attribute(descriptor_, name, type, asked, &found, values),
      absl::StrCat("reading attribute ", static_cast<int>(name)));
}

absl::StatusOr<int64_t> CudnnDescriptor::Integer(
    cudnnBackendAttributeName_t name) const {
  int64_t found = 0, value = 0;
  RETURN_IF_ERROR(GetRaw(name, CUDNN_TYPE_INT64, 1, found, &value));
  return value;
}

absl::StatusOr<std::string> CudnnDescriptor::Text(
    cudnnBackendAttributeName_t name) const {
  // The first call returns only the size.
  int64_t size = 0;
  RETURN_IF_ERROR(GetRaw(name, CUDNN_TYPE_CHAR, 0, size, nullptr));
  std::string text(static_cast<size_t>(size), '\0');
  RETURN_IF_ERROR(GetRaw(name, CUDNN_TYPE_CHAR, size, size, text.data()));
  return text;
}

absl::Status CudnnDescriptor::Get(cudnnBackendAttributeName_t name,
                                  CudnnDescriptor& into) const {
  RETURN_IF_ERROR(into.status());
  int64_t found = 0;
  cudnnBackendDescriptor_t raw = into.get();
  return GetRaw(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, found, &raw);
}

}  // namespace gpupool::engine::cuda
