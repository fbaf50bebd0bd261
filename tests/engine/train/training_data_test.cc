// Trains on datasets of every element type, in memory and mapped.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/data/dataset_reader.h"
#include "engine/train/training_run.h"
#include "tests/engine/data/files.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

constexpr int kRows = 60;

class TrainingDataTest : public RunFixture {
 protected:
  static v1::JobSpec Job() {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        R"pb(model {
               input_shape: [ 3 ]
               layers { dense { units: 8 } }
               layers { relu {} }
               layers { dense { units: 3 } }
             }
             data {
               held_out { last: 12 }
               scaling { standardize {} }
             }
             training {
               cross_entropy {}
               adam { learning_rate: 0.01 }
               batch_size: 7
               epochs: 3
               seed: 5
             })pb",
        &spec));
    return spec;
  }

  // Trains with this budget of memory. Returns the checkpoint's digest, which
  // stands for every bit of the weights.
  std::string Train(const v1::Dataset& dataset, uint64_t memory_bytes) {
    DeviceContext device = Device();
    device.read_limits = {.memory_bytes = memory_bytes,
                          .unpack_dir = blob_dir_};
    auto run = TrainingRun::Create(
        device, {.job_id = 3, .attempt = 1, .spec = Job(), .dataset = dataset});
    EXPECT_TRUE(run.ok()) << run.status();
    if (!run.ok()) return "";
    while (!(*run)->done()) {
      const absl::Status status = (*run)->Step();
      EXPECT_TRUE(status.ok()) << status;
      if (!status.ok()) return "";
    }
    EXPECT_TRUE((*run)->Evaluate().ok());
    return (*run)->SaveCheckpoint()->manifest_sha256();
  }

  // Returns numbers 0 to 120 of an element type, three for each row, and a
  // label.
  v1::Dataset StoreArrays(const std::string& descr, int size, bool deflated) {
    Philox random(9);
    std::string features, labels;
    for (int i = 0; i < kRows; ++i) {
      for (int k = 0; k < 3; ++k) {
        features += files::Little(random.NextBelow(121), size);
      }
      labels += static_cast<char>(i % 3);
    }
    return StoreNpz(files::Zip(
        {{"x.npy",
          files::Npy(descr, absl::StrCat("(", kRows, ", 3)"), features)},
         {"y.npy", files::Npy("|u1", absl::StrCat("(", kRows, ",)"), labels)}},
        deflated));
  }

  v1::Dataset StoreText() {
    Philox random(9);
    std::string text;
    for (int i = 0; i < kRows; ++i) {
      for (int k = 0; k < 3; ++k) {
        absl::StrAppend(&text, random.NextBelow(121), ",");
      }
      absl::StrAppend(&text, i % 3, "\n");
    }
    return StoreCsv(text);
  }
};

TEST_F(TrainingDataTest, TheStoredTypeAndPlaceMakeNoDifference) {
  const v1::Dataset text = StoreText();
  const std::string wanted = Train(text, 1 << 20);
  ASSERT_FALSE(wanted.empty());
  EXPECT_EQ(Train(text, 0), wanted) << "unpacked to the disk";
  for (const auto& [descr, size] :
       {std::pair("|u1", 1), std::pair("|i1", 1), std::pair("<i2", 2),
        std::pair("<u4", 4), std::pair("<i8", 8)}) {
    for (const bool deflated : {false, true}) {
      SCOPED_TRACE(absl::StrCat(descr, deflated ? ", deflated" : ", stored"));
      const v1::Dataset dataset = StoreArrays(descr, size, deflated);
      EXPECT_EQ(Train(dataset, 1 << 20), wanted);
      EXPECT_EQ(Train(dataset, 0), wanted) << "mapped";
    }
  }
}

TEST_F(TrainingDataTest, AMappedFileThatIsCutOffFailsTheStep) {
  const v1::Dataset dataset = StoreArrays("|u1", 1, false);
  DeviceContext device = Device();
  device.read_limits = {.memory_bytes = 0};
  auto run = TrainingRun::Create(
      device, {.job_id = 3, .attempt = 1, .spec = Job(), .dataset = dataset});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->Step().ok());
  std::filesystem::resize_file(blob_dir_ + "/" + dataset.files(0).sha256(), 50);
  EXPECT_EQ((*run)->Step().code(), absl::StatusCode::kDataLoss);
}

TEST_F(TrainingDataTest, AMappedFileThatIsCutOffFailsBatchesMadeAhead) {
  const v1::Dataset dataset = StoreArrays("|u1", 1, false);
  DeviceContext device = Device();
  device.read_limits = {.memory_bytes = 0};
  v1::JobSpec spec = Job();
  spec.mutable_data()->mutable_loader()->set_workers(1);
  spec.mutable_data()->mutable_loader()->set_prefetch(1);
  auto run = TrainingRun::Create(
      device, {.job_id = 3, .attempt = 1, .spec = spec, .dataset = dataset});
  ASSERT_TRUE(run.ok()) << run.status();
  ASSERT_TRUE((*run)->Step().ok());
  std::filesystem::resize_file(blob_dir_ + "/" + dataset.files(0).sha256(), 50);
  // One more batch may have been made before.
  absl::Status step = (*run)->Step();
  if (step.ok()) step = (*run)->Step();
  EXPECT_EQ(step.code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace gpupool::engine
