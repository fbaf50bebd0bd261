#include "server/worker/device_verbs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/session.h"
#include "gpupool/worker/v1/worker.pb.h"

namespace gpupool::server {
namespace {

using worker::v1::FromWorker;
using worker::v1::ToWorker;

class DeviceVerbsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = std::filesystem::temp_directory_path() / "verbsXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    auto session =
        engine::Session::Create({.device = *engine::ParseDevice("cpu:0"),
                                 .memory_limit_bytes = uint64_t{1} << 30,
                                 .blob_dir = folder_});
    ASSERT_TRUE(session.ok()) << session.status();
    session_ = *std::move(session);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  absl::StatusOr<FromWorker> Ask(const ToWorker& request) {
    auto answer = AnswerDeviceVerb(*session_, request);
    if (!answer.has_value()) return absl::InternalError("no verb");
    return *std::move(answer);
  }

  std::filesystem::path folder_;
  std::unique_ptr<engine::Session> session_;
};

TEST_F(DeviceVerbsTest, FiguresComeWithWhatIsAskedForBesideThem) {
  ToWorker request;
  request.mutable_get_memory();
  auto reply = Ask(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->memory().stats().device(), "cpu:0");
  EXPECT_TRUE(reply->memory().stats().by_pytorch_name().contains("num_ooms"));
  EXPECT_FALSE(reply->memory().has_snapshot());
  EXPECT_TRUE(reply->memory().summary().empty());
  request.mutable_get_memory()->set_with_snapshot(true);
  request.mutable_get_memory()->set_with_summary(true);
  reply = Ask(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->memory().snapshot().device(), "cpu:0");
  EXPECT_FALSE(reply->memory().summary().empty());
}

TEST_F(DeviceVerbsTest, ASnapshotHasATimelineOnlyIfItIsWanted) {
  ASSERT_TRUE(session_->RecordMemoryHistory(100).ok());
  // A measured copy allocates memory.
  v1::DeviceBench bench;
  for (uint32_t index = 0; bench.copies().empty(); ++index) {
    const auto more = session_->MeasureDevice(index, bench);
    ASSERT_TRUE(more.ok()) << more.status();
    ASSERT_TRUE(*more);
  }
  ToWorker request;
  request.mutable_get_memory()->set_with_snapshot(true);
  for (const bool wanted : {false, true}) {
    request.mutable_get_memory()->set_with_timeline(wanted);
    const auto reply = Ask(request);
    ASSERT_TRUE(reply.ok()) << reply.status();
    EXPECT_EQ(reply->memory().snapshot().timeline_size() > 0, wanted);
  }
}

TEST_F(DeviceVerbsTest, AnEmptyCacheGivesNothingBack) {
  ToWorker request;
  request.mutable_empty_cache();
  const auto reply = Ask(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_TRUE(reply->has_empty_cache());
  EXPECT_EQ(reply->empty_cache().freed_bytes(), 0u);
}

TEST_F(DeviceVerbsTest, ChangesAnswerWithTheStatisticsOfAfterwards) {
  ToWorker request;
  request.mutable_reset_peak();
  auto reply = Ask(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->memory().stats().device(), "cpu:0");
  request.mutable_set_memory_fraction()->set_fraction(0.5);
  reply = Ask(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->memory().stats().limit_bytes(), uint64_t{1} << 29);
}

TEST_F(DeviceVerbsTest, AnErrorIsTheEngines) {
  ToWorker request;
  request.mutable_set_memory_fraction()->set_fraction(2);
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(request).status()));
}

TEST_F(DeviceVerbsTest, TooManyEntriesAreRefusedOnlyWhileHistoryIsOn) {
  ToWorker request;
  auto& record = *request.mutable_record_memory_history();
  record.set_enabled(true);
  EXPECT_TRUE(Ask(request).ok()) << "0 entries stand for the default";
  record.set_max_entries(uint64_t{1} << 40);
  EXPECT_TRUE(absl::IsInvalidArgument(Ask(request).status()));
  record.set_enabled(false);
  EXPECT_TRUE(Ask(request).ok());
}

TEST_F(DeviceVerbsTest, ADumpIsABlob) {
  ToWorker request;
  request.mutable_dump_memory();
  const auto reply = Ask(request);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(std::filesystem::file_size(folder_ / reply->dump_memory().sha256()),
            reply->dump_memory().bytes());
}

TEST_F(DeviceVerbsTest, OtherRequestsAreNoVerbs) {
  ToWorker request;
  EXPECT_FALSE(AnswerDeviceVerb(*session_, request).has_value());
  request.mutable_start_job();
  EXPECT_FALSE(AnswerDeviceVerb(*session_, request).has_value());
}

}  // namespace
}  // namespace gpupool::server
