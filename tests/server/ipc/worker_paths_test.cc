#include "server/ipc/worker_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

TEST(WorkerPathsTest, EveryDeviceHasItsOwnFolder) {
  const auto paths = WorkerPathsFor("/state", "cpu:12");
  ASSERT_TRUE(paths.ok());
  EXPECT_EQ(paths->folder, "/state/workers/cpu-12");
  EXPECT_EQ(paths->socket, "/state/workers/cpu-12/socket");
  EXPECT_EQ(paths->blobs, "/state/blobs");
  EXPECT_EQ(WorkerPathsFor("/state", "meta")->folder, "/state/workers/meta");
  EXPECT_EQ(WorkerPathsFor("/state", kRehearsalWorker)->folder,
            "/state/workers/rehearsal");
}

TEST(WorkerPathsTest, TheLargestNumberOfADeviceIs1023) {
  EXPECT_TRUE(WorkerPathsFor("/state", "cuda:1023").ok());
  const absl::Status status = WorkerPathsFor("/state", "cuda:1024").status();
  EXPECT_THAT(std::string(status.message()),
              ::testing::HasSubstr("N from 0 to 1023"));
}

TEST(WorkerPathsTest, RefusesNamesThatAreNoDevice) {
  for (const char* name :
       {"", "cpu", "cpu:", "cpu:-1", "cpu:01", "cpu:1024", "cpu:1/../x",
        "tpu:0", "meta:0", "cpu: 1", "cpu:1x", "../meta", "cuda:99999999999"}) {
    EXPECT_EQ(WorkerPathsFor("/state", name).status().code(),
              absl::StatusCode::kInvalidArgument)
        << name;
  }
}

}  // namespace
}  // namespace gpupool::server
