#include "server/worker/host_room.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

class HostRoomTest : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  void Write(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
  }
  uint64_t Free() const {
    return FreeHostBytes({.meminfo = folder_ + "/meminfo", .cgroup = folder_});
  }
  const std::string folder_ =
      absl::StrCat(::testing::TempDir(), "/host_room-", ::getpid());
};

TEST_F(HostRoomTest, TakesTheKernelsEstimate) {
  Write("meminfo", "MemTotal: 9000 kB\nMemFree: 10 kB\nMemAvailable: 300 kB\n");
  EXPECT_EQ(Free(), 300u << 10);
  Write("memory.max", "max\n");
  Write("memory.current", "5000\n");
  EXPECT_EQ(Free(), 300u << 10);
}

TEST_F(HostRoomTest, AContainerMayBeAllowedLess) {
  Write("meminfo", "MemAvailable: 300 kB\n");
  Write("memory.max", "9000\n");
  Write("memory.current", "5000\n");
  EXPECT_EQ(Free(), 4000u);
  // The kernel frees page cache when memory is needed.
  Write("memory.stat", "anon 3000\ninactive_file 1500\nactive_file 500\n");
  EXPECT_EQ(Free(), 5500u);
  Write("memory.current", "9999\n");
  Write("memory.stat", "anon 9999\n");
  EXPECT_EQ(Free(), 0u);
}

TEST_F(HostRoomTest, NobodyTellsMeansNoRoom) { EXPECT_EQ(Free(), 0u); }

TEST_F(HostRoomTest, AMachineHasSome) {
  EXPECT_GT(FreeHostBytes(), 0u);
  EXPECT_EQ(RoomForCopy(1000), 500u);
}

}  // namespace
}  // namespace gpupool::server
