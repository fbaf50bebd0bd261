// Asks the real cuDNN for plans for a GPU that does not exist here.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "engine/backends/cuda/cudnn/cudnn_plan.h"
#include "engine/runtime/device_backend.h"
#include "tests/engine/backends/cuda/device_descriptions.h"

namespace gpupool::engine::cuda {

// Skips its tests if cuDNN is missing or is too old to take a description.
class CudnnPlansTest : public ::testing::Test {
 protected:
  CudnnPlansTest() : cache_("") {}
  void SetUp() override { Describe(kH200Description); }
  void Describe(absl::string_view description) {
    const auto functions = FindCudnn(GPUPOOL_CUDA_LIBRARIES);
    if (!functions.ok()) GTEST_SKIP() << functions.status();
    auto library =
        CudnnLibrary::ForDescription(*functions, description, &cache_);
    if (!library.ok()) GTEST_SKIP() << library.status();
    library_ = *std::move(library);
  }

  CompileRequest RequestFor(size_t node) const {
    return {graph_, graph_.nodes()[node],
            std::vector<bool>(graph_.nodes()[node].inputs.size(), false),
            options_};
  }

  Graph graph_;
  KernelOptions options_;
  PlanCache cache_;
  std::unique_ptr<CudnnLibrary> library_;
};

}  // namespace gpupool::engine::cuda
