#include "engine/import/onnx/onnx_model_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "engine/base/sha256.h"
#include "gpupool/v1/model.pb.h"
#include "tests/engine/import/onnx/half_model.h"
#include "tests/engine/import/onnx/model_text.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::HasSubstr;

class OnnxModelSourceTest : public ::testing::Test {
 protected:
  std::string Store(const std::string& bytes) {
    const std::string name = Sha256Hex(bytes);
    std::ofstream(folder_.path() + "/" + name) << bytes;
    return name;
  }
  // Stores the model y = x + w, with w in an external file.
  v1::OnnxModel StoreModel() {
    onnx::ModelProto model = ModelOfGraph(
        "(float[N, T] x) => (float[N, T] y) <float[2] w = {1, 2}> "
        "{ y = Add(x, w) }");
    auto* tensor = model.mutable_graph()->mutable_initializer(0);
    tensor->clear_float_data();
    tensor->set_data_location(onnx::TensorProto::EXTERNAL);
    auto* location = tensor->add_external_data();
    location->set_key("location");
    location->set_value("weights.bin");
    v1::OnnxModel spec;
    spec.set_sha256(Store(model.SerializeAsString()));
    (*spec.mutable_dimensions())["T"] = 2;
    const float weights[] = {3, 4};
    auto* external = spec.add_external_files();
    external->set_location("weights.bin");
    external->set_sha256(
        Store({reinterpret_cast<const char*>(weights), sizeof(weights)}));
    external->set_bytes(sizeof(weights));
    return spec;
  }
  absl::Status OpenStatus(const v1::OnnxModel& spec) {
    return OpenOnnxModel(spec, folder_.path()).status();
  }

  ScratchFolder folder_;
};

TEST_F(OnnxModelSourceTest, BuildsGraphsAndReadsWeights) {
  const auto source = OpenOnnxModel(StoreModel(), folder_.path());
  ASSERT_TRUE(source.ok()) << source.status();
  const auto model = (*source)->Build({.batch = 5});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->inputs[0].shape, Shape({5, 2}));
  float weights[2];
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<std::byte*>(weights), sizeof(weights));
  ASSERT_TRUE((*source)->ReadStored("w", bytes).ok());
  EXPECT_EQ(weights[1], 4);
  EXPECT_EQ((*source)->ReadStored("w", bytes.first(4)).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ((*source)->ReadStored("v", bytes).code(),
            absl::StatusCode::kNotFound);
}

// Versions that were stored before names were checked can still be opened.
TEST_F(OnnxModelSourceTest, NamesAreCheckedOnRequestOnly) {
  const auto right = OpenOnnxModel(StoreModel(), folder_.path());
  ASSERT_TRUE(right.ok()) << right.status();
  EXPECT_TRUE((*right)->CheckNames().ok());
  v1::OnnxModel spec = StoreModel();
  (*spec.mutable_dimensions())["length"] = 2;
  const auto source = OpenOnnxModel(spec, folder_.path());
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_TRUE((*source)->Build({.batch = 1}).ok());
  const absl::Status named = (*source)->CheckNames();
  EXPECT_EQ(named.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(named.message()), HasSubstr("'length'"));
}

// The file has no bits for other numbers, so training must not change them.
TEST_F(OnnxModelSourceTest, WeightsOfFloat8AreReadButNotTrainedOrReplaced) {
  onnx::ModelProto model = ModelOfGraph(
      "(float[N, 2] x) => (float[N, 2] y) <float[2] w = {1, 2}> "
      "{ s = Constant<value_float = 10.0>() d = DequantizeLinear(w, s) "
      "y = Add(x, d) }");
  auto* tensor = model.mutable_graph()->mutable_initializer(0);
  tensor->clear_float_data();
  tensor->set_data_type(17);
  tensor->set_raw_data("\x38\xb8");
  v1::OnnxModel spec;
  spec.set_sha256(Store(model.SerializeAsString()));
  const auto source = OpenOnnxModel(spec, folder_.path());
  ASSERT_TRUE(source.ok()) << source.status();
  const auto built = (*source)->Build({.batch = 1});
  ASSERT_TRUE(built.ok()) << built.status();
  ASSERT_EQ(built->persistents.size(), 1u);
  EXPECT_EQ(built->persistents[0].dtype, DType::kFloat16);
  EXPECT_EQ(built->persistents[0].memory_class, MemoryClass::kState);
  std::vector<std::byte> halves(4);
  ASSERT_TRUE((*source)->ReadStored("w", absl::MakeSpan(halves)).ok());
  // 1 and -1 in float16.
  EXPECT_EQ(halves[1], std::byte{0x3c});
  EXPECT_EQ(halves[3], std::byte{0xbc});
  const auto file =
      (*source)->ExportOnnx({{"w", DType::kFloat16, Shape({2}), halves}});
  ASSERT_TRUE(file.ok()) << file.status();
  onnx::ModelProto exported;
  ASSERT_TRUE(exported.ParseFromString(*file));
  EXPECT_EQ(exported.graph().initializer(0).data_type(), 17);
  EXPECT_EQ(exported.graph().initializer(0).raw_data(), "\x38\xb8");
}

// The model y = x + w in float16.
TEST_F(OnnxModelSourceTest, HalfWeightsAreFloat32OutsideOfTheFile) {
  onnx::ModelProto model = ModelOfGraph(
      "(float[N, 2] x) => (float[N, 2] y) <float[2] w = {1.5, -2}> "
      "{ y = Add(x, w) }");
  ToHalf({}, model);
  v1::OnnxModel spec;
  spec.set_sha256(Store(model.SerializeAsString()));
  const auto source = OpenOnnxModel(spec, folder_.path());
  ASSERT_TRUE(source.ok()) << source.status();
  const auto built = (*source)->Build({.batch = 1});
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_EQ(built->persistents[0].dtype, DType::kFloat32);
  EXPECT_EQ(built->inputs[0].dtype, DType::kFloat16);
  EXPECT_EQ(built->outputs[0].dtype, DType::kFloat16);
  EXPECT_EQ(built->graph.value(built->outputs[0].value).dtype, DType::kFloat16);
  const auto wide = (*source)->Build({.batch = 1, .wide_ports = true});
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_EQ(wide->inputs[0].dtype, DType::kFloat32);
  EXPECT_EQ(wide->outputs[0].dtype, DType::kFloat32);
  EXPECT_EQ(wide->graph.value(wide->output).dtype, DType::kFloat32);
  float numbers[2];
  const auto bytes =
      absl::MakeSpan(reinterpret_cast<std::byte*>(numbers), sizeof(numbers));
  ASSERT_TRUE((*source)->ReadStored("w", bytes).ok());
  EXPECT_EQ(numbers[0], 1.5f);
  EXPECT_EQ(numbers[1], -2.0f);
  // Exports round to the nearest float16: 1 + 2^-12 is 1.
  numbers[0] = 1 + 0x1p-12f;
  const auto file =
      (*source)->ExportOnnx({{"w", DType::kFloat32, Shape({2}), bytes}});
  ASSERT_TRUE(file.ok()) << file.status();
  onnx::ModelProto exported;
  ASSERT_TRUE(exported.ParseFromString(*file));
  const auto& tensor = exported.graph().initializer(0);
  EXPECT_EQ(tensor.name(), "w");
  EXPECT_EQ(tensor.data_type(), onnx::TensorProto::FLOAT16);
  EXPECT_EQ(tensor.raw_data(), std::string("\x00\x3c\x00\xc0", 4));
  numbers[1] = 1e6f;
  const auto beyond =
      (*source)->ExportOnnx({{"w", DType::kFloat32, Shape({2}), bytes}});
  EXPECT_EQ(beyond.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(
      std::string(beyond.status().message()),
      HasSubstr("\"w\" has the number 1e+06, which is too large for the "
                "float16"));
}

TEST_F(OnnxModelSourceTest, SaysWhichBlobIsMissingOrDamaged) {
  v1::OnnxModel spec = StoreModel();
  spec.set_sha256(std::string(64, 'a'));
  EXPECT_EQ(OpenStatus(spec).code(), absl::StatusCode::kNotFound);
  spec.set_sha256("../../etc/passwd");
  EXPECT_EQ(OpenStatus(spec).code(), absl::StatusCode::kInvalidArgument);
  spec = StoreModel();
  spec.set_bytes(1);
  EXPECT_EQ(OpenStatus(spec).code(), absl::StatusCode::kInvalidArgument);
  spec = StoreModel();
  std::ofstream(folder_.path() + "/" + spec.sha256()) << "other";
  EXPECT_EQ(OpenStatus(spec).code(), absl::StatusCode::kDataLoss);
}

TEST_F(OnnxModelSourceTest, ExternalFilesMustBeGiven) {
  v1::OnnxModel spec = StoreModel();
  spec.clear_external_files();
  const absl::Status status = OpenStatus(spec);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("weights.bin"));
}

TEST_F(OnnxModelSourceTest, UnsupportedOperatorsAreFoundWhenOpened) {
  v1::OnnxModel spec;
  spec.set_sha256(
      Store(ModelOfGraph("(float[2] x) => (float[2] y) { y = Strange(x) }")
                .SerializeAsString()));
  EXPECT_EQ(OpenStatus(spec).code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
