// A kernel that calls one function with the addresses of its operands.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "engine/base/check.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

// Typed views of a kernel's addresses.
class KernelArguments {
 public:
  KernelArguments() = default;
  explicit KernelArguments(KernelBuffers buffers)
      : buffers_(std::move(buffers)) {}

  template <typename T = float>
  const T* in(size_t i) const {
    return reinterpret_cast<const T*>(buffers_.inputs[i]);
  }
  template <typename T = float>
  T* out(size_t i) const {
    return reinterpret_cast<T*>(buffers_.outputs[i]);
  }
  template <typename T = float>
  T* workspace() const {
    return reinterpret_cast<T*>(buffers_.workspace);
  }
  size_t inputs() const { return buffers_.inputs.size(); }

 private:
  KernelBuffers buffers_;
};

template <typename Function>
class FunctionKernel : public Kernel {
 public:
  FunctionKernel(uint64_t workspace_bytes, Function function)
      : workspace_bytes_(workspace_bytes), function_(std::move(function)) {}

  uint64_t workspace_bytes() const override { return workspace_bytes_; }
  absl::Status Bind(const KernelBuffers& buffers) override {
    arguments_ = KernelArguments(buffers);
    return absl::OkStatus();
  }
  absl::Status Run() override {
    if constexpr (std::is_void_v<
                      std::invoke_result_t<Function, KernelArguments&>>) {
      function_(arguments_);
      return absl::OkStatus();
    } else {
      return function_(arguments_);
    }
  }

 private:
  uint64_t workspace_bytes_;
  Function function_;
  KernelArguments arguments_;
};

// Makes a kernel that calls `function`, which takes const KernelArguments& and
// returns nothing or a Status.
template <typename Function>
std::unique_ptr<Kernel> MakeKernel(Function function,
                                   uint64_t workspace_bytes = 0) {
  return std::make_unique<FunctionKernel<Function>>(workspace_bytes,
                                                    std::move(function));
}

}  // namespace gpupool::engine
