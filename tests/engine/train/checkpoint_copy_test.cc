#include "engine/train/checkpoint_copy.h"

#include <filesystem>
#include <thread>

#include "engine/train/training_run.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

class CheckpointCopyTest : public RunFixture {
 protected:
  std::unique_ptr<TrainingRun> Start() {
    std::string rows;
    for (int i = 0; i < 50; ++i) {
      rows += absl::StrCat(i % 7, ",", i % 5, ",", i % 3, "\n");
    }
    TrainingRequest request;
    request.job_id = 3;
    request.attempt = 2;
    request.dataset = StoreCsv(rows);
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        "model { input_shape: 2 layers { dense { units: 4 } } "
        "        layers { dense { units: 1 } } } "
        "data {} "
        "training { mean_squared_error {} adam {} batch_size: 10 steps: 20 "
        "           ema { decay: 0.9 } }",
        &request.spec));
    auto run = TrainingRun::Create(Device(), request);
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }
  static void StepTo(TrainingRun& run, uint64_t step) {
    while (run.step() < step) ASSERT_TRUE(run.Step().ok());
  }
};

TEST_F(CheckpointCopyTest, HoldsWhatWasWhenItWasTaken) {
  auto run = Start();
  StepTo(*run, 7);
  const auto saved = run->SaveCheckpoint();
  ASSERT_TRUE(saved.ok()) << saved.status();
  auto copy = run->CopyCheckpoint();
  ASSERT_TRUE(copy.ok()) << copy.status();
  StepTo(*run, 12);
  const auto later = run->SaveCheckpoint();
  run.reset();  // the weights' memory with it
  absl::StatusOr<v1::Checkpoint> written;
  std::thread writer([&] { written = (*copy)(); });
  writer.join();
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_EQ(written->step(), 7u);
  EXPECT_EQ(written->job_id(), 3u);
  EXPECT_EQ(written->attempt(), 2u);
  EXPECT_EQ(written->bytes(), saved->bytes());
  EXPECT_EQ(written->manifest_sha256(), saved->manifest_sha256());
  EXPECT_NE(written->manifest_sha256(), later->manifest_sha256());
}

TEST_F(CheckpointCopyTest, NothingIsOnDiskBeforeItIsWritten) {
  auto run = Start();
  StepTo(*run, 7);
  const auto files = [this] {
    return std::distance(std::filesystem::directory_iterator(blob_dir_), {});
  };
  const auto before = files();
  const auto copy = run->CopyCheckpoint();
  ASSERT_TRUE(copy.ok()) << copy.status();
  EXPECT_EQ(files(), before);
  EXPECT_GT(run->checkpoint_bytes(), 0u);
  ASSERT_TRUE((*copy)().ok());
  EXPECT_EQ(files(), before + 3);  // weights, optimizer, manifest
}

TEST_F(CheckpointCopyTest, AFolderThatIsGoneIsAnErrorOfTheWrite) {
  auto run = Start();
  StepTo(*run, 1);
  const auto copy = run->CopyCheckpoint();
  ASSERT_TRUE(copy.ok()) << copy.status();
  std::filesystem::rename(blob_dir_, blob_dir_ + ".away");
  EXPECT_EQ((*copy)().status().code(), absl::StatusCode::kInternal);
  std::filesystem::rename(blob_dir_ + ".away", blob_dir_);
  EXPECT_TRUE((*copy)().ok());
}

}  // namespace
}  // namespace gpupool::engine
