#include "engine/import/onnx/file/onnx_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::onnx_import {
namespace {

std::string AddModel() {
  return ModelOfGraph(
             "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> "
             "{ y = Add(x, w) }")
      .SerializeAsString();
}

TEST(OnnxFileTest, FindsInitializersByName) {
  const auto file = OnnxFile::Parse(AddModel(), {});
  ASSERT_TRUE(file.ok()) << file.status();
  const onnx::TensorProto* w = (*file)->stored("w");
  ASSERT_NE(w, nullptr);
  EXPECT_EQ((*file)->stored_name(*w), "w");
  EXPECT_EQ((*file)->stored("x"), nullptr);
  EXPECT_EQ((*file)->stored_name(onnx::TensorProto()), "");
}

TEST(OnnxFileTest, InitializersOfSubgraphsHaveNamesOfTheirOwn) {
  const auto file = OnnxFile::Parse(
      ModelOfGraph("(float[2] x, bool c) => (float[2] y) "
                   "<float[2] w = {1, 2}> { a = Add(x, w) y = If (c) <"
                   "then_branch = t () => (float[2] p) <float[2] w = {3, 4}> "
                   "{ p = Add(a, w) }, "
                   "else_branch = e () => (float[2] q) <float[2] w = {5, 6}> "
                   "{ q = Add(a, w) }> }")
          .SerializeAsString(),
      {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ((*file)->stored("w")->float_data(0), 1);
  EXPECT_EQ((*file)->stored("w#2")->float_data(0), 3);
  EXPECT_EQ((*file)->stored("w#3")->float_data(0), 5);
}

TEST(OnnxFileTest, RefusesEveryTruncation) {
  const std::string bytes = AddModel();
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto file = OnnxFile::Parse(bytes.substr(0, length), {});
    // A cut between two fields may leave a valid file.
    if (file.ok()) continue;
    EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_FALSE(OnnxFile::Parse(bytes.substr(0, bytes.size() / 2), {}).ok());
}

TEST(OnnxFileTest, RefusesHugeTensorsWithoutMakingThem) {
  onnx::ModelProto model = ModelOfGraph(
      "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
  auto* tensor = model.mutable_graph()->mutable_initializer(0);
  tensor->set_dims(0, int64_t{1} << 47);
  const auto file = OnnxFile::Parse(model.SerializeAsString(), {});
  EXPECT_EQ(file.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(OnnxFileTest, FindsFunctionsOfEitherNameOfADomain) {
  const auto file = OnnxFile::Parse(
      ModelFromText("<ir_version: 8, opset_import: [\"\" : 17, \"own\" : 1]> "
                    "agraph (float[2] x) => (float[2] y) { y = own.f(x) } "
                    "<domain: \"own\", opset_import: [\"\" : 17]> "
                    "f (a) => (b) { b = Relu(a) }")
          .SerializeAsString(),
      {});
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_NE((*file)->function("own", "f"), nullptr);
  EXPECT_EQ((*file)->function("", "f"), nullptr);
}

TEST(OnnxFileTest, OpensFilesWithTheDataBesideThem) {
  const ScratchFolder folder;
  onnx::ModelProto model = ModelOfGraph(
      "(float[2] x) => (float[2] y) <float[2] w = {1, 2}> { y = Add(x, w) }");
  auto* tensor = model.mutable_graph()->mutable_initializer(0);
  tensor->clear_float_data();
  tensor->set_data_location(onnx::TensorProto::EXTERNAL);
  auto* location = tensor->add_external_data();
  location->set_key("location");
  location->set_value("data.bin");
  const std::string path = folder.path() + "/model.onnx";
  std::ofstream(path) << model.SerializeAsString();
  EXPECT_FALSE(OnnxFile::Open(path).ok());
  std::ofstream(folder.path() + "/data.bin") << "12345678";
  EXPECT_TRUE(OnnxFile::Open(path).ok());
  // A link elsewhere stands for the file and its data.
  const std::string links = folder.path() + "/links";
  std::filesystem::create_directory(links);
  const std::string link = links + "/link.onnx";
  std::filesystem::create_symlink(path, link);
  EXPECT_TRUE(OnnxFile::Open(link).ok()) << OnnxFile::Open(link).status();
  EXPECT_FALSE(OnnxFile::Parse(model.SerializeAsString(), {}).ok());
  EXPECT_EQ(OnnxFile::Open(folder.path() + "/none.onnx").status().code(),
            absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
