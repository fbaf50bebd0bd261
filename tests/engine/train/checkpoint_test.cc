#include "engine/train/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <sstream>

#include "engine/tensor/half.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  // Returns a tensor over `storage_`.
  TensorBytes Tensor(const std::string& name, Shape shape, size_t at,
                     DType dtype = DType::kFloat32) {
    TensorFacts facts{name, dtype, shape};
    return {facts, absl::MakeSpan(storage_).subspan(at, facts.bytes())};
  }

  const ScratchFolder folder_;
  const std::string dir_ = folder_.path();
  std::vector<std::byte> storage_ = std::vector<std::byte>(256);
};

Manifest SomeManifest() {
  Manifest manifest;
  manifest.job_id = 7;
  manifest.attempt = 2;
  manifest.step = 100;
  manifest.epoch = 3;
  manifest.batch_in_epoch = 10;
  manifest.seed = ~uint64_t{0};
  manifest.batch_size = 32;
  manifest.input_scaling = true;
  manifest.model.add_input_shape(64);
  manifest.model.add_layers()->mutable_dense()->set_units(10);
  return manifest;
}

TEST_F(CheckpointTest, ManifestComesBackAsWritten) {
  Manifest manifest = SomeManifest();
  auto file = WriteTensors(dir_, "weights", {Tensor("a", {2}, 0)});
  ASSERT_TRUE(file.ok()) << file.status();
  manifest.files = {*file};
  auto written = WriteManifest(dir_, manifest);
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_GT(written->bytes, file->bytes);
  auto read = ReadManifest(dir_, written->sha256);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->job_id, 7u);
  EXPECT_EQ(read->attempt, 2u);
  EXPECT_EQ(read->step, 100u);
  EXPECT_EQ(read->epoch, 3u);
  EXPECT_EQ(read->batch_in_epoch, 10u);
  EXPECT_EQ(read->seed, ~uint64_t{0}) << "numbers beyond 2^53 survive";
  EXPECT_EQ(read->batch_size, 32u);
  EXPECT_TRUE(read->input_scaling);
  EXPECT_EQ(read->model.SerializeAsString(),
            manifest.model.SerializeAsString());
  ASSERT_NE(read->FindFile("weights"), nullptr);
  EXPECT_EQ(read->FindFile("weights")->sha256, file->sha256);
  EXPECT_EQ(read->FindFile("optimizer"), nullptr);
}

TEST_F(CheckpointTest, TheSameStateHasTheSameName) {
  EXPECT_EQ(WriteManifest(dir_, SomeManifest())->sha256,
            WriteManifest(dir_, SomeManifest())->sha256);
}

TEST_F(CheckpointTest, TensorsComeBackInAnyOrder) {
  for (size_t i = 0; i < 32; ++i) storage_[i] = static_cast<std::byte>(i);
  Manifest manifest = SomeManifest();
  auto file = WriteTensors(dir_, "weights",
                           {Tensor("a", {2}, 0), Tensor("b", {3, 2}, 8)});
  ASSERT_TRUE(file.ok()) << file.status();
  manifest.files = {*file};
  const absl::Status status =
      ReadTensors(dir_, manifest, "weights",
                  {Tensor("b", {3, 2}, 108), Tensor("a", {2}, 100)});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(std::memcmp(&storage_[0], &storage_[100], 32), 0);
}

TEST_F(CheckpointTest, TensorsMustBeExactlyTheModels) {
  Manifest manifest = SomeManifest();
  manifest.files = {*WriteTensors(dir_, "weights",
                                  {Tensor("a", {2}, 0), Tensor("b", {3}, 8)})};
  auto read = [&](std::vector<TensorBytes> tensors) {
    return std::string(
        ReadTensors(dir_, manifest, "weights", tensors).message());
  };
  EXPECT_THAT(read({Tensor("a", {2}, 0), Tensor("c", {3}, 8)}),
              HasSubstr("no tensor \"c\"; the model needs float32[3]"));
  EXPECT_THAT(read({Tensor("a", {2}, 0), Tensor("b", {4}, 8)}),
              HasSubstr("\"b\" of the weights is float32[3]"));
  EXPECT_THAT(read({Tensor("a", {2}, 0), Tensor("b", {3}, 8, DType::kInt32)}),
              HasSubstr("the model needs int32[3]"));
  EXPECT_THAT(read({Tensor("a", {2}, 0)}),
              HasSubstr("have a tensor \"b\" that the model does not have"));
}

// Versions that were trained in float16 have such weights.
TEST_F(CheckpointTest, FloatingNumbersAreConverted) {
  const uint16_t halves[] = {0x3c00, 0xc000};  // 1 and -2
  std::memcpy(&storage_[0], halves, sizeof(halves));
  Manifest manifest = SomeManifest();
  manifest.files = {
      *WriteTensors(dir_, "weights", {Tensor("a", {2}, 0, DType::kFloat16)})};
  const absl::Status status =
      ReadTensors(dir_, manifest, "weights", {Tensor("a", {2}, 100)});
  ASSERT_TRUE(status.ok()) << status;
  float numbers[2];
  std::memcpy(numbers, &storage_[100], sizeof(numbers));
  EXPECT_EQ(numbers[0], 1);
  EXPECT_EQ(numbers[1], -2);
}

TEST_F(CheckpointTest, SpoiledDataIsDataLossAndChangesNothing) {
  Manifest manifest = SomeManifest();
  manifest.files = {*WriteTensors(dir_, "weights", {Tensor("a", {2}, 0)})};
  std::ofstream(dir_ + "/" + manifest.files[0].sha256, std::ios::app) << "x";
  storage_[0] = std::byte{42};
  EXPECT_EQ(
      ReadTensors(dir_, manifest, "weights", {Tensor("a", {2}, 0)}).code(),
      absl::StatusCode::kDataLoss);
  EXPECT_EQ(storage_[0], std::byte{42});
  EXPECT_EQ(ReadTensors(dir_, manifest, "optimizer", {}).code(),
            absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, ManifestFieldsAreChecked) {
  auto written = WriteManifest(dir_, SomeManifest());
  ASSERT_TRUE(written.ok());
  std::ifstream in(dir_ + "/" + written->sha256);
  std::stringstream buffer;
  buffer << in.rdbuf();
  const std::string text = buffer.str();
  auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    auto blob = WriteBlob(dir_, {changed});
    return std::string(ReadManifest(dir_, blob->sha256).status().message());
  };
  EXPECT_THAT(with("gpupool.checkpoint", "other"), HasSubstr("not known"));
  EXPECT_THAT(with("\"format_version\": 1", "\"format_version\": 2"),
              HasSubstr("version 2 is not known"));
  EXPECT_THAT(with("\"step\": 100", "\"step\": -1"), HasSubstr("\"step\""));
  EXPECT_THAT(with("\"attempt\": 2", "\"attempt\": 4294967296"),
              HasSubstr("\"attempt\""));
  EXPECT_THAT(with("\"18446744073709551615\"", "\"18446744073709551616\""),
              HasSubstr("\"seed\""));
  EXPECT_THAT(with("true", "1"), HasSubstr("\"input_scaling\""));
  EXPECT_THAT(with("\"dense\"", "\"dance\""), HasSubstr("\"model\""));
  EXPECT_THAT(with("\"files\": []", "\"files\": {}"), HasSubstr("\"files\""));
  EXPECT_THAT(
      with("\"files\": []",
           "\"files\": [{\"role\": \"a\", \"sha256\": \"..\", \"bytes\": 1}]"),
      HasSubstr("sha256"));
  EXPECT_THAT(with("{", "["), HasSubstr("not a JSON object"));
}

TEST_F(CheckpointTest, NumbersAreRoundedToATypeThatIsAskedFor) {
  const float numbers[] = {1.00390625f, 3.0e-39f, -1e30f};
  std::memcpy(storage_.data(), numbers, sizeof(numbers));
  Manifest manifest = SomeManifest();
  manifest.files = {*WriteTensors(dir_, "weights", {Tensor("a", {3}, 0)})};
  std::array<uint16_t, 3> rounded = {};
  TensorBytes wanted = Tensor("a", {3}, 0);
  wanted.bytes = {reinterpret_cast<std::byte*>(rounded.data()), 6};
  wanted.rounded_to = DType::kBFloat16;
  ASSERT_TRUE(ReadTensors(dir_, manifest, "weights", {wanted}).ok());
  for (size_t i = 0; i < rounded.size(); ++i) {
    EXPECT_EQ(rounded[i], BFloat16FromFloat(numbers[i])) << numbers[i];
  }
}

}  // namespace
}  // namespace gpupool::engine
