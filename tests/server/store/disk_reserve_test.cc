#include "server/store/disk_reserve.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/server/store/temp_dir.h"

namespace gpupool::server {
namespace {

constexpr uint64_t kBytes = 1 << 20;
const absl::Time kNow = absl::FromUnixSeconds(1000);

TEST(DiskReserveTest, IsThereAfterOpenAndTakenAgainNextTime) {
  TempDir directory;
  for (int start = 0; start < 2; ++start) {
    auto reserve = DiskReserve::Open(directory / "reserve", kBytes);
    ASSERT_TRUE(reserve.ok()) << reserve.status();
    EXPECT_EQ(std::filesystem::file_size(directory / "reserve"), kBytes);
    EXPECT_TRUE((*reserve)->CheckRoom().ok());
  }
}

TEST(DiskReserveTest, OfAnotherSizeIsMadeAnew) {
  TempDir directory;
  std::ofstream(directory / "reserve") << std::string(3 * kBytes, 'x');
  auto reserve = DiskReserve::Open(directory / "reserve", kBytes);
  ASSERT_TRUE(reserve.ok()) << reserve.status();
  EXPECT_EQ(std::filesystem::file_size(directory / "reserve"), kBytes);
}

TEST(DiskReserveTest, IsGivenOnceAndMadeAgainWhenThereIsRoom) {
  TempDir directory;
  auto reserve = DiskReserve::Open(directory / "reserve", kBytes);
  ASSERT_TRUE(reserve.ok()) << reserve.status();
  EXPECT_TRUE((*reserve)->Release());
  EXPECT_EQ(std::filesystem::file_size(directory / "reserve"), 0u);
  EXPECT_FALSE((*reserve)->Release());
  EXPECT_TRUE(absl::IsResourceExhausted((*reserve)->CheckRoom()));
  (*reserve)->Look(kNow);
  EXPECT_TRUE((*reserve)->CheckRoom().ok());
  EXPECT_TRUE((*reserve)->Release());
  // It is not done before a second has passed.
  (*reserve)->Look(kNow + absl::Milliseconds(900));
  EXPECT_FALSE((*reserve)->CheckRoom().ok());
  (*reserve)->Look(kNow + absl::Seconds(1));
  EXPECT_TRUE((*reserve)->CheckRoom().ok());
}

TEST(DiskReserveTest, ADiskThatIsTooSmallRefusesAndSaysWhatToDo) {
  TempDir directory;
  const uint64_t too_much = uint64_t{1} << 60;
  auto reserve = DiskReserve::Open(directory / "reserve", too_much);
  ASSERT_TRUE(reserve.ok()) << reserve.status();
  EXPECT_FALSE((*reserve)->Release());
  const std::string text = (*reserve)->CheckRoom().ToString();
  for (const char* words : {directory.path().c_str(), "bytes are free",
                            "delete files there or enlarge the disk"}) {
    EXPECT_NE(text.find(words), std::string::npos) << text;
  }
}

TEST(DiskReserveTest, NoneLeavesNoFile) {
  TempDir directory;
  auto reserve = DiskReserve::Open(directory / "reserve", 0);
  ASSERT_TRUE(reserve.ok()) << reserve.status();
  EXPECT_FALSE(std::filesystem::exists(directory / "reserve"));
  EXPECT_FALSE((*reserve)->Release());
}

TEST(DiskReserveTest, WithoutFolderSaysSo) {
  EXPECT_TRUE(absl::IsUnavailable(
      DiskReserve::Open("/nowhere/reserve", kBytes).status()));
}

}  // namespace
}  // namespace gpupool::server
