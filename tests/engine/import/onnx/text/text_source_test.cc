#include "engine/import/onnx/text/text_source.h"

#include <string>

#include "engine/import/onnx/file/onnx_file.h"
#include "engine/loaded_text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/engine/import/onnx/model_text.h"

namespace gpupool::engine::onnx_import {
namespace {

TEST(TextSourceTest, HasAPlanAndNoGraph) {
  const auto file = OnnxFile::Parse(
      ModelOfGraph("(string[n] x) => (string[n] y) { y = Identity(x) }")
          .SerializeAsString(),
      ExternalFiles());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto source = MakeTextSource({}, **file);
  ASSERT_TRUE(source.ok()) << source.status();
  ASSERT_NE((*source)->text_plan(), nullptr);
  EXPECT_TRUE(absl::IsUnimplemented((*source)->Build({}).status()));
  EXPECT_TRUE(absl::IsUnimplemented((*source)->ExportOnnx({}).status()));

  // A worker knows the ports of such a model, and does not compute it.
  LoadedText loaded(*(*source)->text_plan());
  ASSERT_EQ(loaded.inputs().size(), 1u);
  EXPECT_EQ(loaded.inputs()[0].data_type(), v1::STRING);
  EXPECT_EQ(loaded.measured_bytes(), 0u);
  EXPECT_TRUE(absl::IsFailedPrecondition(loaded.Infer({}, nullptr)));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
