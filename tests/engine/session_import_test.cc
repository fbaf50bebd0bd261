// Imports models from files into a session and exports them as files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "engine/base/sha256.h"
#include "tests/engine/session_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SessionImportTest : public SessionFixture {
 protected:
  void SetUp() override {
    SessionFixture::SetUp();
    auto run = Start(DigitsJob());
    ASSERT_TRUE(run.ok()) << run.status();
    StepTo(**run, 20);
    auto checkpoint = (*run)->SaveCheckpoint();
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    trained_ = checkpoint->manifest_sha256();
  }

  // Returns the scores of a model for three images.
  std::vector<float> Answer(const std::string& manifest) {
    auto model = session_->LoadModel({.version_id = ++version_,
                                      .name = "digits/1",
                                      .manifest_sha256 = manifest,
                                      .max_batch_size = 4});
    EXPECT_TRUE(model.ok()) << model.status();
    if (!model.ok()) return {};
    std::vector<float> images(3 * 64), scores(3 * 10);
    for (size_t i = 0; i < images.size(); ++i) {
      images[i] = static_cast<float>(i % 17);
    }
    const absl::Span<const std::byte> input(
        reinterpret_cast<const std::byte*>(images.data()), images.size() * 4);
    const absl::Span<std::byte> output(
        reinterpret_cast<std::byte*>(scores.data()), scores.size() * 4);
    const absl::Status status =
        (*model)->Infer({.rows = 3,
                         .inputs = absl::MakeConstSpan(&input, 1),
                         .outputs = absl::MakeConstSpan(&output, 1)},
                        nullptr);
    EXPECT_TRUE(status.ok()) << status;
    return scores;
  }

  static void ExpectClose(const std::vector<float>& a,
                          const std::vector<float>& b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_NEAR(a[i], b[i], 1e-4 * (1 + std::abs(b[i]))) << i;
    }
  }

  v1::ModelSpec Exported() {
    auto exported = session_->ExportModel(trained_, ExportFormat::kOnnx);
    EXPECT_TRUE(exported.ok()) << exported.status();
    v1::ModelSpec spec;
    spec.mutable_onnx()->set_sha256(exported->sha256);
    spec.mutable_onnx()->set_bytes(exported->bytes);
    return spec;
  }

  std::string trained_;
  uint64_t version_ = 0;
};

TEST_F(SessionImportTest, AnExportedModelIsImportedWithTheSameResults) {
  const std::vector<float> trained = Answer(trained_);
  auto imported =
      Open("meta")->ImportModel(Exported(), "", {.max_batch_size = 4});
  ASSERT_TRUE(imported.ok()) << imported.status();
  ASSERT_EQ(imported->plan.inputs_size(), 1);
  EXPECT_THAT(imported->plan.inputs(0).shape(), ElementsAre(-1, 1, 8, 8));
  ExpectClose(Answer(imported->manifest_sha256), trained);
}

TEST_F(SessionImportTest, WeightsAreExportedAndImportedWithTheirLayers) {
  v1::JobSpec job = DigitsJob();
  job.mutable_data()->clear_scaling();
  auto run = Start(job);
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 5);
  auto checkpoint = (*run)->SaveCheckpoint();
  ASSERT_TRUE(checkpoint.ok());
  auto weights = session_->ExportModel(checkpoint->manifest_sha256(),
                                       ExportFormat::kSafetensors);
  ASSERT_TRUE(weights.ok()) << weights.status();
  auto imported = session_->ImportModel(job.model(), weights->sha256,
                                        {.max_batch_size = 4});
  ASSERT_TRUE(imported.ok()) << imported.status();
  ExpectClose(Answer(imported->manifest_sha256),
              Answer(checkpoint->manifest_sha256()));
}

TEST_F(SessionImportTest, WeightsMustBeTheModels) {
  v1::ModelSpec spec = DigitsJob().model();
  EXPECT_THAT(
      session_->ImportModel(spec, "", {.max_batch_size = 4}).status().message(),
      HasSubstr("safetensors"));
  auto weights = session_->ExportModel(trained_, ExportFormat::kSafetensors);
  ASSERT_TRUE(weights.ok());
  spec.mutable_layers(0)->mutable_conv2d()->set_filters(17);
  EXPECT_EQ(session_->ImportModel(spec, weights->sha256, {.max_batch_size = 4})
                .status()
                .code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(SessionImportTest, TrainingBeginsWithTheFilesWeights) {
  v1::JobSpec job = DigitsJob();
  *job.mutable_model() = Exported();
  job.mutable_data()->clear_scaling();  // part of the file
  auto run = Start(job);
  ASSERT_TRUE(run.ok()) << run.status();
  auto before = (*run)->SaveCheckpoint();
  ASSERT_TRUE(before.ok()) << before.status();
  ExpectClose(Answer(before->manifest_sha256()), Answer(trained_));
  StepTo(**run, 100);
  auto evaluation = (*run)->Evaluate();
  ASSERT_TRUE(evaluation.ok()) << evaluation.status();
  EXPECT_GT(evaluation->accuracy(), 0.9);
  auto after = (*run)->SaveCheckpoint();
  ASSERT_TRUE(after.ok());
  EXPECT_THAT(FilesOf(*after), HasSubstr("\"onnx\""));
  const std::vector<float> tuned = Answer(after->manifest_sha256());
  // The trained model is exported as the same file with other weights.
  auto again =
      session_->ExportModel(after->manifest_sha256(), ExportFormat::kOnnx);
  ASSERT_TRUE(again.ok()) << again.status();
  v1::ModelSpec spec;
  spec.mutable_onnx()->set_sha256(again->sha256);
  spec.mutable_onnx()->set_bytes(again->bytes);
  auto imported = session_->ImportModel(spec, "", {.max_batch_size = 4});
  ASSERT_TRUE(imported.ok()) << imported.status();
  ExpectClose(Answer(imported->manifest_sha256), tuned);
}

TEST_F(SessionImportTest, WeightsOfAFileTakeThePlaceOfTheModels) {
  const v1::ModelSpec trained = Exported();
  v1::JobSpec job = DigitsJob();
  *job.mutable_model() = trained;
  job.mutable_data()->clear_scaling();  // part of the file
  auto run = Start(job);
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 50);
  const auto tuned = (*run)->SaveCheckpoint();
  ASSERT_TRUE(tuned.ok());
  const std::vector<float> wanted = Answer(tuned->manifest_sha256());
  const auto weights = session_->ExportModel(tuned->manifest_sha256(),
                                             ExportFormat::kSafetensors);
  ASSERT_TRUE(weights.ok()) << weights.status();
  v1::ModelSpec spec = trained;
  spec.mutable_weights()->set_sha256(weights->sha256);
  spec.mutable_weights()->set_bytes(weights->bytes);
  EXPECT_TRUE(session_->PlanInference(spec, {.max_batch_size = 4}).ok());
  const auto imported = session_->ImportModel(spec, "", {.max_batch_size = 4});
  ASSERT_TRUE(imported.ok()) << imported.status();
  EXPECT_EQ(Answer(imported->manifest_sha256), wanted);
  // A job begins with them, too, and its checkpoints replace them.
  *job.mutable_model() = spec;
  auto again = Start(job);
  ASSERT_TRUE(again.ok()) << again.status();
  const auto before = (*again)->SaveCheckpoint();
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(Answer(before->manifest_sha256()), wanted);
  EXPECT_THAT(FilesOf(*before), HasSubstr("\"initial_weights\""));
  StepTo(**again, 1);
  const auto after = (*again)->SaveCheckpoint();
  ASSERT_TRUE(after.ok());
  EXPECT_NE(Answer(after->manifest_sha256()), wanted);
  // Both exports have the file's names.
  const auto file =
      session_->ExportModel(imported->manifest_sha256, ExportFormat::kOnnx);
  ASSERT_TRUE(file.ok()) << file.status();
  v1::ModelSpec exported;
  exported.mutable_onnx()->set_sha256(file->sha256);
  *exported.mutable_weights() = spec.weights();
  EXPECT_TRUE(session_->PlanInference(exported, {.max_batch_size = 4}).ok());
  exported.clear_weights();
  const auto plain = session_->ImportModel(exported, "", {.max_batch_size = 4});
  ASSERT_TRUE(plain.ok()) << plain.status();
  EXPECT_EQ(Answer(plain->manifest_sha256), wanted);
}

TEST_F(SessionImportTest, LayersBeginWithTheWeightsOfAFile) {
  v1::JobSpec job = DigitsJob();
  job.mutable_data()->clear_scaling();
  auto run = Start(job);
  ASSERT_TRUE(run.ok()) << run.status();
  StepTo(**run, 5);
  const auto checkpoint = (*run)->SaveCheckpoint();
  ASSERT_TRUE(checkpoint.ok());
  const auto weights = session_->ExportModel(checkpoint->manifest_sha256(),
                                             ExportFormat::kSafetensors);
  ASSERT_TRUE(weights.ok()) << weights.status();
  job.mutable_model()->mutable_weights()->set_sha256(weights->sha256);
  const auto imported =
      session_->ImportModel(job.model(), "", {.max_batch_size = 4});
  ASSERT_TRUE(imported.ok()) << imported.status();
  const auto wanted = Answer(checkpoint->manifest_sha256());
  EXPECT_EQ(Answer(imported->manifest_sha256), wanted);
  auto again = Start(job);
  ASSERT_TRUE(again.ok()) << again.status();
  const auto before = (*again)->SaveCheckpoint();
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(Answer(before->manifest_sha256()), wanted);
  job.mutable_model()->mutable_layers(0)->mutable_conv2d()->set_filters(17);
  EXPECT_THAT(std::string(Start(job).status().message()),
              HasSubstr("of another shape: 'conv2d_0.bias' ([16], the model "
                        "has [17])"));
}

TEST_F(SessionImportTest, AMissingFileIsNotFound) {
  v1::ModelSpec spec = Exported();
  std::filesystem::remove(blob_dir_ + "/" + spec.onnx().sha256());
  EXPECT_EQ(
      session_->ImportModel(spec, "", {.max_batch_size = 4}).status().code(),
      absl::StatusCode::kNotFound);
  EXPECT_EQ(
      session_->PlanInference(spec, {.max_batch_size = 4}).status().code(),
      absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace gpupool::engine
