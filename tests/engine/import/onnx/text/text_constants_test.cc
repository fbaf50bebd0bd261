#include "engine/import/onnx/text/text_constants.h"

#include <cstdint>

#include "engine/import/onnx/file/external_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "onnx/onnx_pb.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;

TEST(TextConstantsTest, TextsAndNumbersKeepShapeAndType) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::STRING);
  tensor.add_dims(2);
  tensor.add_string_data("a");
  tensor.add_string_data("");
  const auto texts = TextConstant(tensor, ExternalFiles());
  ASSERT_TRUE(texts.ok()) << texts.status();
  EXPECT_EQ(texts->data_type(), v1::STRING);
  EXPECT_THAT(texts->shape(), ElementsAre(2));
  EXPECT_THAT(texts->texts(), ElementsAre("a", ""));
  tensor.Clear();
  tensor.set_data_type(onnx::TensorProto::INT64);
  tensor.add_dims(1);
  tensor.add_int64_data(-7);
  EXPECT_THAT(TextConstant(tensor, ExternalFiles())->integers(),
              ElementsAre(-7));
}

TEST(TextConstantsTest, OtherNumbersOfTextsAndOtherTypesAreRefused) {
  onnx::TensorProto tensor;
  tensor.set_data_type(onnx::TensorProto::STRING);
  tensor.add_dims(3);
  tensor.add_string_data("a");
  EXPECT_TRUE(
      absl::IsInvalidArgument(TextConstant(tensor, ExternalFiles()).status()));
  tensor.set_dims(0, int64_t{1} << 62);
  tensor.add_dims(4);
  EXPECT_TRUE(
      absl::IsInvalidArgument(TextConstant(tensor, ExternalFiles()).status()));
  EXPECT_TRUE(absl::IsUnimplemented(
      TextDataType(onnx::TensorProto::COMPLEX64).status()));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
