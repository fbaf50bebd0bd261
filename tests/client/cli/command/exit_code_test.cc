#include "client/cli/command/exit_code.h"

#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

TEST(ExitCodeTest, MapsEachStatusCode) {
  EXPECT_EQ(ExitCodeFor(absl::OkStatus()), 0);
  EXPECT_EQ(ExitCodeFor(absl::InternalError("")), 1);
  EXPECT_EQ(ExitCodeFor(absl::DataLossError("")), 1);
  EXPECT_EQ(ExitCodeFor(absl::UnimplementedError("")), 1);
  EXPECT_EQ(ExitCodeFor(absl::InvalidArgumentError("")), 2);
  EXPECT_EQ(ExitCodeFor(absl::NotFoundError("")), 3);
  EXPECT_EQ(ExitCodeFor(absl::PermissionDeniedError("")), 4);
  EXPECT_EQ(ExitCodeFor(absl::UnauthenticatedError("")), 4);
  EXPECT_EQ(ExitCodeFor(absl::UnavailableError("")), 5);
  EXPECT_EQ(ExitCodeFor(absl::AlreadyExistsError("")), 6);
  EXPECT_EQ(ExitCodeFor(absl::FailedPreconditionError("")), 6);
  EXPECT_EQ(ExitCodeFor(absl::ResourceExhaustedError("")), 7);
  EXPECT_EQ(ExitCodeFor(absl::DeadlineExceededError("")), 124);
  EXPECT_EQ(ExitCodeFor(absl::CancelledError("")), 130);
}

TEST(ExitCodeTest, OnlyASucceededJobIsSuccess) {
  EXPECT_EQ(ExitCodeFor(v1::SUCCEEDED), 0);
  EXPECT_EQ(ExitCodeFor(v1::FAILED), 1);
  EXPECT_EQ(ExitCodeFor(v1::CANCELLED), 1);
  EXPECT_EQ(ExitCodeFor(v1::RUNNING), 1);
}

}  // namespace
}  // namespace gpupool::client
