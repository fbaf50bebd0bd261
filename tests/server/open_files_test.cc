#include "server/open_files.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>

namespace gpupool::server {
namespace {

class OpenFilesTest : public ::testing::Test {
 protected:
  OpenFilesTest() { ::getrlimit(RLIMIT_NOFILE, &original_); }
  ~OpenFilesTest() override { ::setrlimit(RLIMIT_NOFILE, &original_); }

  rlim_t Soft() {
    rlimit now = {};
    ::getrlimit(RLIMIT_NOFILE, &now);
    return now.rlim_cur;
  }
  void SetSoft(rlim_t soft) {
    const rlimit lower = {soft, original_.rlim_max};
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  }

  rlimit original_ = {};
};

TEST_F(OpenFilesTest, TheSoftLimitBecomesTheHardOne) {
  ASSERT_GT(original_.rlim_max, rlim_t{128});
  SetSoft(128);
  const auto limit = RaiseOpenFileLimit();
  ASSERT_TRUE(limit.ok()) << limit.status();
  const rlim_t most = 1 << 20;
  EXPECT_EQ(limit->before, 128u);
  EXPECT_EQ(limit->now, std::min(original_.rlim_max, most));
  EXPECT_EQ(Soft(), limit->now);
}

TEST_F(OpenFilesTest, ALimitThatIsHighAlreadyStays) {
  ASSERT_TRUE(RaiseOpenFileLimit().ok());
  const rlim_t raised = Soft();
  const auto again = RaiseOpenFileLimit();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->before, raised);
  EXPECT_EQ(again->now, raised);
  EXPECT_EQ(Soft(), raised);
}

}  // namespace
}  // namespace gpupool::server
