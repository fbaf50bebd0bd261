#include "tests/engine/import/onnx/operators/domain_case.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::engine::onnx_import {
namespace {

// Returns "float[2, 3] x", as ONNX's text format declares a tensor.
std::string Declared(const std::string& name, const HostTensor& tensor) {
  const std::string type = tensor.dtype == DType::kFloat32
                               ? "float"
                               : std::string(DTypeName(tensor.dtype));
  if (tensor.shape.rank() == 0) return absl::StrCat(type, " ", name);
  return absl::StrCat(type, "[", absl::StrJoin(tensor.shape.dims(), ", "), "] ",
                      name);
}

std::string Ports(const NamedTensors& tensors) {
  std::vector<std::string> ports;
  for (const auto& [name, tensor] : tensors) {
    ports.push_back(Declared(name, tensor));
  }
  return absl::StrCat("(", absl::StrJoin(ports, ", "), ")");
}

}  // namespace

LoweringCase DomainCase(const std::string& graph,
                        std::map<std::string, HostTensor> inputs) {
  return {.graph = graph,
          .inputs = std::move(inputs),
          .domains = {{"ai.onnx.ml", 5}, {"com.microsoft", 1}}};
}

HostTensor Tensor(DType dtype, std::vector<int64_t> dims,
                  std::vector<double> numbers) {
  return {dtype, *Shape::CreateMaybeEmpty(dims), std::move(numbers)};
}

void ExpectOutputs(const std::string& nodes, const NamedTensors& inputs,
                   const NamedTensors& outputs) {
  const std::string graph =
      absl::StrCat(Ports(inputs), " => ", Ports(outputs), " { ", nodes, " }");
  const auto results =
      RunLowering(DomainCase(graph, {inputs.begin(), inputs.end()}));
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto& [name, expected] = outputs[i];
    SCOPED_TRACE(name);
    EXPECT_EQ((*results)[i].dtype, expected.dtype);
    const absl::Span<const int64_t> dims = expected.shape.dims();
    ExpectNumbers((*results)[i], {dims.begin(), dims.end()}, expected.numbers);
  }
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

void ExpectRefusals(absl::Span<const RefusedNodes> cases) {
  for (const RefusedNodes& one : cases) {
    SCOPED_TRACE(one.rule);
    const auto model = ImportLowering(
        DomainCase(absl::StrCat(one.ports, " { ", one.nodes, " }")));
    EXPECT_FALSE(model.ok());
    EXPECT_THAT(std::string(model.status().message()),
                ::testing::HasSubstr(one.message));
  }
}

}  // namespace gpupool::engine::onnx_import
