// For models that PyTorch exported, gpupool's outputs are those of PyTorch:
// rtol 1e-3, atol 1e-4.
#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/pytorch/formula.h"
#include "tests/conformance/pytorch/stored_case.h"
#include "tests/engine/testing/onnx_program.h"

namespace gpupool::testing {
namespace {

using engine::testing::OnnxProgram;

class PytorchOutputs : public ::testing::TestWithParam<const char*> {};

void SetInput(const nlohmann::json& facts, OnnxProgram& program) {
  int64_t count = 1;
  for (const int64_t dim : facts["input_shape"]) count *= dim;
  const uint64_t tokens = facts["tokens"];
  if (tokens > 0) {
    program.SetInput("input", Integers(kInputStream, count, tokens));
  } else {
    program.SetInput("input", UniformNumbers(kInputStream, count));
  }
}

TEST_P(PytorchOutputs, Agree) {
  const StoredCase stored = OpenStoredCase(GetParam());
  const auto program = OnnxProgram::ForInference(
      stored.source, stored.facts["input_shape"][0], 2);
  SetInput(stored.facts, *program);
  ASSERT_TRUE(program->Run().ok());
  const absl::Span<const float> output = program->Output("output");
  const size_t stride = stored.facts["stride"];
  const std::vector<double> expected = stored.facts["output"];
  ASSERT_EQ((output.size() + stride - 1) / stride, expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ASSERT_NEAR(output[i * stride], expected[i],
                1e-4 + 1e-3 * std::abs(expected[i]))
        << "element " << i * stride;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, PytorchOutputs,
    ::testing::Values("resnet18", "resnet50", "mobilenet_v2", "mobilenet_v3",
                      "vgg11", "densenet121", "squeezenet", "unet", "encoder",
                      "decoder", "lstm", "gru"),
    [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace gpupool::testing
