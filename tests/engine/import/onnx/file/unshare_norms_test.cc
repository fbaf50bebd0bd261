#include "engine/import/onnx/file/unshare_norms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;

std::vector<std::string> InitializerNames(const onnx::ModelProto& model) {
  std::vector<std::string> names;
  for (const auto& tensor : model.graph().initializer()) {
    names.push_back(tensor.name());
  }
  return names;
}

TEST(UnshareNormsTest, NormsThatShareTensorsGetTheirOwn) {
  onnx::ModelProto model = ModelOfGraph(
      "(float[N, 2] x) => (float[N, 2] y) <float[2] one = {1, 1}, float[2] "
      "zero = {0, 0}> { a = BatchNormalization(x, one, zero, zero, one) y = "
      "BatchNormalization(a, one, zero, zero, one) }");
  UnshareNorms(model);
  EXPECT_THAT(InitializerNames(model),
              ElementsAre("one", "zero", "one/0.1", "zero/0.2", "zero/0.3",
                          "one/0.4", "one/1.1", "zero/1.2"));
  const auto& nodes = model.graph().node();
  EXPECT_THAT(nodes[0].input(),
              ElementsAre("x", "one/0.1", "zero/0.2", "zero/0.3", "one/0.4"));
  EXPECT_THAT(nodes[1].input(),
              ElementsAre("a", "one/1.1", "zero/1.2", "zero", "one"));
  EXPECT_THAT(model.graph().initializer(2).float_data(), ElementsAre(1, 1));
}

TEST(UnshareNormsTest, ATensorThatComesThroughAnIdentityIsShared) {
  onnx::ModelProto model = ModelOfGraph(
      "(float[N, 2] x) => (float[N, 2] y) <float[2] s = {1, 1}, float[2] z = "
      "{0, 0}, float[2] m = {0, 0}, float[2] v = {1, 1}> { i = Identity(z) j = "
      "Identity(i) y = BatchNormalization(x, s, j, m, v) }");
  UnshareNorms(model);
  EXPECT_THAT(model.graph().node(2).input(),
              ElementsAre("x", "s", "z/2.2", "m", "v"));
}

TEST(UnshareNormsTest, WeightsThatAreTiedOnPurposeStayTied) {
  onnx::ModelProto model = ModelOfGraph(
      "(float[2, 2] x) => (float[2, 2] y) <float[2, 2] w = {1, 2, 3, 4}> "
      "{ a = MatMul(x, w) y = MatMul(a, w) }");
  UnshareNorms(model);
  EXPECT_THAT(InitializerNames(model), ElementsAre("w"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
