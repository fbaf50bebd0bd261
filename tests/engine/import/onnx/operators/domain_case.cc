#include "tests/engine/import/onnx/operators/domain_case.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace gpupool::engine::onnx_import {

LoweringCase DomainCase(const std::string& graph,
                        std::map<std::string, HostTensor> inputs) {
  return {.graph = graph,
          .inputs = std::move(inputs),
          .domains = {{"ai.onnx.ml", 5}, {"com.microsoft", 1}}};
}

absl::StatusOr<std::vector<HostTensor>> RunDomain(
    const std::string& graph, std::map<std::string, HostTensor> inputs) {
  return RunLowering(DomainCase(graph, std::move(inputs)));
}

std::string Refusal(const std::string& graph) {
  const auto model = ImportLowering(DomainCase(graph));
  EXPECT_FALSE(model.ok()) << graph;
  return std::string(model.status().message());
}

void ExpectNumbers(const HostTensor& tensor, const std::vector<int64_t>& dims,
                   const std::vector<double>& numbers) {
  EXPECT_EQ(tensor.shape, *Shape::CreateMaybeEmpty(dims));
  ASSERT_EQ(tensor.numbers.size(), numbers.size());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (std::isnan(numbers[i]) && std::isnan(tensor.numbers[i])) continue;
    EXPECT_NEAR(tensor.numbers[i], numbers[i],
                1e-5 + 1e-4 * std::fabs(numbers[i]))
        << "element " << i;
  }
}

}  // namespace gpupool::engine::onnx_import
