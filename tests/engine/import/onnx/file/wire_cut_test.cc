#include "engine/import/onnx/file/wire_cut.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::TensorProto;

constexpr int kLarge = 3 * kLeastCutBytes / sizeof(float);

// Adds an initializer of `count` different float32 numbers.
TensorProto& AddFloats(onnx::ModelProto& model, const std::string& name,
                       int count) {
  TensorProto& tensor = *model.mutable_graph()->add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(TensorProto::FLOAT);
  tensor.add_dims(count);
  std::string* data = tensor.mutable_raw_data();
  for (int i = 0; i < count; ++i) {
    const auto x = static_cast<float>(i);
    data->append(reinterpret_cast<const char*>(&x), sizeof(x));
  }
  return tensor;
}

// Returns a model with one large and one small initializer, whose graph is not
// its last field.
onnx::ModelProto Model() {
  onnx::ModelProto model;
  model.set_ir_version(8);
  model.add_opset_import()->set_version(17);
  model.mutable_graph()->set_name("graph");
  AddFloats(model, "large", kLarge);
  AddFloats(model, "small", 5);
  model.set_doc_string("after the graph");
  return model;
}

onnx::ModelProto Cut(const onnx::ModelProto& model) {
  onnx::ModelProto cut;
  EXPECT_TRUE(cut.ParseFromString(CutInitializers(model.SerializeAsString())));
  return cut;
}

TEST(WireCutTest, LargeDataBecomeAPlaceInTheFile) {
  const onnx::ModelProto model = Model();
  const std::string bytes = model.SerializeAsString();
  onnx::ModelProto cut = Cut(model);
  TensorProto& large = *cut.mutable_graph()->mutable_initializer(0);
  ASSERT_EQ(large.data_location(), TensorProto::EXTERNAL);
  EXPECT_FALSE(large.has_raw_data());
  EXPECT_LT(cut.ByteSizeLong(), kLeastCutBytes);
  const size_t offset = std::stoul(large.external_data(1).value());
  const size_t length = std::stoul(large.external_data(2).value());
  // With its data back, the model is the old one.
  large.set_raw_data(bytes.substr(offset, length));
  large.clear_external_data();
  large.clear_data_location();
  EXPECT_EQ(cut.SerializeAsString(), bytes);
}

TEST(WireCutTest, OtherTensorsStayAsTheyAre) {
  onnx::ModelProto model = Model();
  auto* graph = model.mutable_graph();
  graph->mutable_initializer(0)->set_data_type(TensorProto::UINT32);
  AddFloats(model, "flags", kLarge).set_data_type(TensorProto::BOOL);
  AddFloats(model, "elsewhere", kLarge)
      .set_data_location(TensorProto::EXTERNAL);
  AddFloats(model, "unknown", kLarge).set_data_type(99);
  EXPECT_EQ(Cut(model).SerializeAsString(), model.SerializeAsString());
}

TEST(WireCutTest, DataThatAreThereTwiceStay) {
  onnx::ModelProto model = Model();
  std::string bytes = model.SerializeAsString();
  // A second graph with the same field adds its tensors to those of the first.
  onnx::ModelProto second;
  TensorProto& tensor = AddFloats(second, "second", kLarge);
  std::string twice = tensor.SerializeAsString();
  twice += tensor.SerializeAsString();
  second.mutable_graph()->clear_initializer();
  ASSERT_TRUE(
      second.mutable_graph()->add_initializer()->ParseFromString(twice));
  bytes += second.SerializeAsString();
  onnx::ModelProto whole, cut;
  ASSERT_TRUE(whole.ParseFromString(bytes));
  ASSERT_TRUE(cut.ParseFromString(CutInitializers(bytes)));
  ASSERT_EQ(cut.graph().initializer_size(), 3);
  EXPECT_EQ(cut.graph().initializer(0).data_location(), TensorProto::EXTERNAL);
  EXPECT_EQ(cut.graph().initializer(1).SerializeAsString(),
            whole.graph().initializer(1).SerializeAsString());
}

TEST(WireCutTest, AFileGivesTheSameNumbers) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/model.onnx";
  std::ofstream(path, std::ios::binary) << Model().SerializeAsString();
  const auto file = OnnxFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  const TensorProto* large = (*file)->stored("large");
  ASSERT_NE(large, nullptr);
  EXPECT_EQ(large->data_location(), TensorProto::EXTERNAL);
  const auto tensor = ReadTensor(*large, (*file)->external());
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  ASSERT_EQ(tensor->numbers.size(), size_t{kLarge});
  EXPECT_EQ(tensor->numbers[1], 1);
  EXPECT_EQ(tensor->numbers.back(), kLarge - 1);
}

TEST(WireCutTest, AFileThatIsCutOffLaterIsNotRead) {
  const ScratchFolder folder;
  const std::string path = folder.path() + "/model.onnx";
  std::ofstream(path, std::ios::binary) << Model().SerializeAsString();
  const auto file = OnnxFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  std::filesystem::resize_file(path, 100);
  EXPECT_EQ(ReadTensor(*(*file)->stored("large"), (*file)->external())
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
}

TEST(WireCutTest, DataOfAnotherLengthAreRefused) {
  const ScratchFolder folder;
  onnx::ModelProto model = Model();
  model.mutable_graph()->mutable_initializer(0)->set_dims(0, kLarge + 1);
  const std::string path = folder.path() + "/model.onnx";
  std::ofstream(path, std::ios::binary) << model.SerializeAsString();
  const auto file = OnnxFile::Open(path);
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(
      std::string(file.status().message()),
      ::testing::HasSubstr("tensor 'large': has 49152 bytes of data; its "
                           "shape takes 49156"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
