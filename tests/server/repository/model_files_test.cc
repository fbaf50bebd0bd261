#include "server/repository/model_files.h"

#include <gmock/gmock.h>

#include "engine/base/sha256.h"
#include "tests/server/repository/repository_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ModelFilesTest : public RepositoryTest {
 protected:
  void SetUp() override {
    RepositoryTest::SetUp();
    Write("a/1/model.onnx", "model");
    Write("a/1/weights", "12345678");
    folder_.emplace(*ConfinedFolder::Open(root()));
    model_ = Find("a");
  }
  VersionFiles Files(uint64_t limit_bytes = 8) {
    return {.root = &*folder_,
            .folder = "a/1",
            .version = &model_.versions.front(),
            .limit_bytes = limit_bytes,
            .stop = &stop_};
  }
  std::optional<ConfinedFolder> folder_;
  ModelFolder model_;
};

TEST_F(ModelFilesTest, TheSpecHasDigestsAndSizesOfAllFiles) {
  const auto spec = SpecOfFiles(Files());
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->onnx().sha256(), engine::Sha256Hex("model"));
  EXPECT_EQ(spec->onnx().bytes(), 5u);
  ASSERT_EQ(spec->onnx().external_files_size(), 1);
  EXPECT_EQ(spec->onnx().external_files(0).location(), "weights");
  EXPECT_EQ(spec->onnx().external_files(0).sha256(),
            engine::Sha256Hex("12345678"));
  EXPECT_EQ(spec->onnx().external_files(0).bytes(), 8u);
}

TEST_F(ModelFilesTest, FilesBecomeBlobs) {
  const auto spec = SpecOfFiles(Files());
  ASSERT_TRUE(spec.ok());
  const absl::Status stored = StoreFiles(Files(), *spec, *blobs_);
  ASSERT_TRUE(stored.ok()) << stored;
  EXPECT_EQ(*blobs_->Read(engine::Sha256Hex("model"), 99), "model");
  EXPECT_EQ(*blobs_->Read(engine::Sha256Hex("12345678"), 99), "12345678");
}

TEST_F(ModelFilesTest, AFileAboveTheLimitIsRefusedByItsName) {
  const auto refused = SpecOfFiles(Files(7));
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status()));
  EXPECT_THAT(std::string(refused.status().message()),
              AllOf(HasSubstr("a/1/weights has 8 bytes"),
                    HasSubstr("at most 7"), HasSubstr("--model-limit")));
}

TEST_F(ModelFilesTest, AFileThatChangedSinceTheLookIsNotTaken) {
  Write("a/1/model.onnx", "longer model");
  EXPECT_TRUE(absl::IsAborted(SpecOfFiles(Files(99)).status()));
}

TEST_F(ModelFilesTest, AFileThatChangedSinceItsDigestIsNotStored) {
  const auto spec = SpecOfFiles(Files());
  ASSERT_TRUE(spec.ok());
  Write("a/1/model.onnx", "longer model");
  EXPECT_TRUE(absl::IsAborted(StoreFiles(Files(), *spec, *blobs_)));
  EXPECT_FALSE(blobs_->Contains(engine::Sha256Hex("model")));
}

TEST_F(ModelFilesTest, AStopEndsReading) {
  stop_ = true;
  EXPECT_TRUE(absl::IsCancelled(SpecOfFiles(Files()).status()));
}

}  // namespace
}  // namespace gpupool::server
