// A session on a small CPU device with the digits data set stored in it.
#pragma once

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/sha256.h"
#include "engine/session.h"
#include "tests/engine/scratch_folder.h"
#include "tests/test_paths.h"

namespace gpupool::engine {

// A small convolutional net for the digits that ship with the project.
inline constexpr char kDigitsJob[] = R"pb(
  name: "digits"
  model {
    input_shape: [ 1, 8, 8 ]
    layers { conv2d { filters: 16 kernel: 3 padding: 1 } }
    layers { relu {} }
    layers { max_pool { kernel: 2 } }
    layers { conv2d { filters: 32 kernel: 3 padding: 1 } }
    layers { relu {} }
    layers { flatten {} }
    layers { dense { units: 10 } }
  }
  data {
    dataset: "digits"
    held_out { every: 5 }
    scaling { multiply: 0.0625 }
  }
  training {
    cross_entropy {}
    adam { learning_rate: 0.003 }
    batch_size: 32
    epochs: 10
    seed: 7
  }
)pb";

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

class SessionFixture : public ::testing::Test {
 protected:
  void SetUp() override {
    session_ = Open("cpu:0");
    ASSERT_NE(session_, nullptr);
  }

  std::unique_ptr<Session> Open(const std::string& device, int threads = 1,
                                uint64_t limit_bytes = 1 << 30) {
    auto session = Session::Create({.device = *ParseDevice(device),
                                    .memory_limit_bytes = limit_bytes,
                                    .threads = threads,
                                    .blob_dir = blob_dir_});
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }

  static v1::JobSpec DigitsJob() {
    v1::JobSpec spec;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(kDigitsJob, &spec));
    return spec;
  }

  // Stores bytes as the only file of a dataset and inspects it.
  absl::StatusOr<v1::Dataset> Store(const std::string& name,
                                    const std::string& bytes) {
    v1::Dataset dataset;
    v1::DatasetFile* file = dataset.add_files();
    file->set_role(v1::DatasetFile::TABLE);
    file->set_file_name(name);
    file->set_total_bytes(bytes.size());
    file->set_sha256(Sha256Hex(bytes));
    std::ofstream(blob_dir_ + "/" + file->sha256(), std::ios::binary) << bytes;
    auto facts = session_->InspectDataset({}, {*file});
    if (!facts.ok()) return facts.status();
    dataset.set_rows(facts->rows);
    dataset.set_feature_type(facts->feature_type);
    dataset.set_classes(facts->labels.class_count());
    ToProto(facts->labels, dataset.mutable_labels());
    for (int64_t dimension : facts->feature_shape) {
      dataset.add_feature_shape(dimension);
    }
    return dataset;
  }

  v1::Dataset Digits() {
    auto dataset = Store("digits.csv.gz",
                         ReadFile(SourcePath("examples/data/digits.csv.gz")));
    EXPECT_TRUE(dataset.ok()) << dataset.status();
    return *dataset;
  }

  absl::StatusOr<std::unique_ptr<Training>> Start(
      const v1::JobSpec& spec, const std::string& resume = "") {
    return session_->StartTraining({.job_id = 7,
                                    .attempt = 1,
                                    .spec = spec,
                                    .dataset = Digits(),
                                    .resume_manifest_sha256 = resume});
  }

  // Steps until `step`. Fails the test on an error.
  static void StepTo(Training& run, uint64_t step) {
    while (run.step() < step) {
      const absl::Status status = run.Step();
      ASSERT_TRUE(status.ok()) << status;
    }
  }

  // Returns the elements of one row of a tensor.
  static size_t RowElements(const v1::TensorSpec& spec) {
    size_t elements = 1;
    for (int i = 1; i < spec.shape_size(); ++i) {
      elements *= static_cast<size_t>(spec.shape(i));
    }
    return elements;
  }

  // Returns the answers of a model with one float32 input and one float32
  // output.
  static std::vector<float> Answers(ServedModel& model,
                                    const std::vector<float>& input) {
    const size_t rows = input.size() / RowElements(model.inputs()[0]);
    std::vector<float> output(rows * RowElements(model.outputs()[0]));
    const absl::Span<const std::byte> from(
        reinterpret_cast<const std::byte*>(input.data()),
        input.size() * sizeof(float));
    const absl::Span<std::byte> to(reinterpret_cast<std::byte*>(output.data()),
                                   output.size() * sizeof(float));
    const absl::Status status =
        model.Infer({.rows = static_cast<uint32_t>(rows),
                     .inputs = absl::MakeConstSpan(&from, 1),
                     .outputs = absl::MakeConstSpan(&to, 1)},
                    nullptr);
    EXPECT_TRUE(status.ok()) << status;
    return output;
  }

  // Returns the digests of weights and optimizer state in a checkpoint's
  // manifest.
  std::string FilesOf(const v1::Checkpoint& checkpoint) {
    const std::string manifest =
        ReadFile(blob_dir_ + "/" + checkpoint.manifest_sha256());
    const size_t at = manifest.find("\"files\"");
    EXPECT_NE(at, std::string::npos) << manifest;
    return manifest.substr(at);
  }

  const ScratchFolder folder_;
  const std::string blob_dir_ = folder_.path();
  std::unique_ptr<Session> session_;
};

}  // namespace gpupool::engine
