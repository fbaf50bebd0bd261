#include "server/worker/lease.h"

#include <unistd.h>

#include <filesystem>
#include <optional>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(LeaseTest, HasOneHolderWhomTheRefusalNames) {
  std::string pattern = ::testing::TempDir() + "/leaseXXXXXX";
  ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
  const std::string path = pattern + "/lease";
  std::optional<Lease> first = *Lease::Take(path, "cpu:0");
  const absl::Status refused = Lease::Take(path, "cpu:0").status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find(absl::StrCat(::getpid())), std::string::npos)
      << refused;
  EXPECT_NE(refused.message().find("cpu:0"), std::string::npos);
  first.reset();
  EXPECT_TRUE(Lease::Take(path, "cpu:0").ok());
  std::filesystem::remove_all(pattern);
}

TEST(LeaseTest, FolderThatDoesNotExistIsAnError) {
  EXPECT_EQ(Lease::Take("/nonexistent/lease", "cpu:0").status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gpupool::server
