#include "server/serving/regions/shared_region.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/regions/region_files.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kHuge = std::numeric_limits<uint64_t>::max();

class SharedRegionTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::shared_ptr<const SharedRegion>> Open(
      const std::string& key, uint64_t offset, uint64_t bytes,
      std::optional<uint32_t> user = std::nullopt) const {
    return SharedRegion::Open(
        {.name = "r", .key = key, .offset = offset, .bytes = bytes},
        {.folder = files_.folder(), .user = user});
  }
  static absl::StatusOr<std::string> Read(const SharedRegion& region,
                                          uint64_t offset, size_t bytes) {
    std::string text(bytes, '\0');
    const absl::Status read = region.Read(
        offset,
        absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size()));
    if (!read.ok()) return read;
    return text;
  }

  // Returns the text of an error behind the key.
  static std::string EndOf(const absl::Status& status) {
    const std::string text(status.message());
    const size_t at = text.find("; ");
    return at == std::string::npos ? text : text.substr(at);
  }

  RegionFiles files_;
};

TEST_F(SharedRegionTest, ReadsAndWritesItsWindowOnly) {
  files_.Put("/a", "0123456789");
  const auto region = Open("/a", 2, 6);
  ASSERT_TRUE(region.ok()) << region.status();
  EXPECT_EQ(*Read(**region, 0, 6), "234567");
  EXPECT_EQ(*Read(**region, 5, 1), "7");
  EXPECT_EQ(*Read(**region, 6, 0), "");
  EXPECT_TRUE((*region)->Write(4, "xy").ok());
  EXPECT_EQ(files_.Get("/a"), "012345xy89");
  EXPECT_TRUE(absl::IsInvalidArgument(Read(**region, 0, 7).status()));
  EXPECT_TRUE(absl::IsInvalidArgument((*region)->Write(5, "xy")));
  EXPECT_EQ(files_.Get("/a"), "012345xy89");
}

TEST_F(SharedRegionTest, SizesNearTwoToTheSixtyFourAreRefused) {
  files_.Put("/a", "0123456789");
  for (const auto& [offset, bytes] :
       {std::pair(kHuge, uint64_t{1}), std::pair(uint64_t{1}, kHuge),
        std::pair(kHuge, kHuge), std::pair(kHuge - 1, uint64_t{2}),
        std::pair(uint64_t{11}, uint64_t{1}), std::pair(uint64_t{0}, kHuge),
        std::pair(uint64_t{1} << 63, uint64_t{1} << 63)}) {
    const auto region = Open("/a", offset, bytes);
    EXPECT_TRUE(absl::IsInvalidArgument(region.status()))
        << offset << " " << bytes;
    EXPECT_THAT(std::string(region.status().message()),
                HasSubstr("has 10 bytes"));
  }
  const auto region = Open("/a", 2, 6);
  ASSERT_TRUE(region.ok());
  for (const auto& [offset, bytes] :
       {std::pair(kHuge, uint64_t{1}), std::pair(uint64_t{1}, kHuge),
        std::pair(kHuge - 1, uint64_t{2}), std::pair(uint64_t{7}, uint64_t{0}),
        std::pair(uint64_t{1} << 63, uint64_t{1} << 63)}) {
    EXPECT_TRUE(absl::IsInvalidArgument((*region)->CheckWindow(offset, bytes)))
        << offset << " " << bytes;
  }
  EXPECT_TRUE((*region)->CheckWindow(6, 0).ok());
}

TEST_F(SharedRegionTest, ATruncatedFileIsAnErrorAndGrowsNoMore) {
  files_.Put("/a", "0123456789");
  const auto region = Open("/a", 0, 10);
  ASSERT_TRUE(region.ok());
  files_.Resize("/a", 4);
  EXPECT_EQ(*Read(**region, 0, 4), "0123");
  const auto read = Read(**region, 0, 10);
  EXPECT_TRUE(absl::IsFailedPrecondition(read.status())) << read.status();
  EXPECT_THAT(std::string(read.status().message()),
              HasSubstr("has 4 bytes and 10 are needed"));
  EXPECT_TRUE(absl::IsFailedPrecondition((*region)->Write(0, "abcdefghij")));
  EXPECT_EQ(files_.Get("/a"), "0123");
}

TEST_F(SharedRegionTest, AFileThatIsUnlinkedKeepsItsBytes) {
  files_.Put("/a", "0123456789");
  const auto region = Open("/a", 0, 10);
  ASSERT_TRUE(region.ok());
  ASSERT_EQ(unlink(files_.PathOf("/a").c_str()), 0);
  EXPECT_EQ(*Read(**region, 0, 10), "0123456789");
}

TEST_F(SharedRegionTest, HostileKeysAreRefused) {
  const std::string longest = "/" + std::string(255, 'x');
  for (const std::string& key :
       {std::string("/a"), longest, std::string("/psm_1f.0-a"),
        std::string("/.a")}) {
    EXPECT_TRUE(CheckRegionKey(key).ok()) << key;
  }
  for (const std::string& key :
       {std::string(), std::string("a"), std::string("/"), std::string("//a"),
        std::string("/a/b"), std::string("/a/"), std::string("/."),
        std::string("/.."), std::string("/../etc/passwd"), std::string("/a..b"),
        std::string("../a"), longest + "x", std::string("/a b"),
        std::string("/a\n"), std::string("/a\0b", 4), std::string("/\xc3\xa4"),
        std::string("/sem.lock"), std::string("/nccl-Ab12"),
        std::string("/cuda.shm.0.1")}) {
    const absl::Status checked = CheckRegionKey(key);
    EXPECT_TRUE(absl::IsInvalidArgument(checked)) << key;
    EXPECT_TRUE(absl::IsInvalidArgument(Open(key, 0, 1).status())) << key;
  }
}

TEST_F(SharedRegionTest, LinksFoldersAndPipesAreNotOpened) {
  files_.Put("/a", "0123456789");
  ASSERT_EQ(symlink(files_.PathOf("/a").c_str(), files_.PathOf("/l").c_str()),
            0);
  ASSERT_EQ(symlink("/etc/passwd", files_.PathOf("/p").c_str()), 0);
  ASSERT_EQ(mkdir(files_.PathOf("/d").c_str(), 0777), 0);
  ASSERT_EQ(mkfifo(files_.PathOf("/f").c_str(), 0666), 0);
  ASSERT_EQ(chmod(files_.PathOf("/f").c_str(), 0666), 0);
  const auto absent = Open("/none", 0, 1);
  EXPECT_TRUE(absl::IsNotFound(absent.status())) << absent.status();
  for (const char* key : {"/l", "/p", "/d", "/f"}) {
    const auto region = Open(key, 0, 1, ::geteuid());
    EXPECT_TRUE(absl::IsNotFound(region.status())) << key;
    // Nobody learns from the text what is there.
    EXPECT_EQ(EndOf(region.status()), EndOf(absent.status()));
  }
}

TEST_F(SharedRegionTest, APrivateFileIsForItsUserOnly) {
  files_.Put("/a", "0123456789", 0600);
  EXPECT_TRUE(Open("/a", 0, 1, ::geteuid()).ok());
  EXPECT_TRUE(absl::IsNotFound(Open("/a", 0, 1).status()));
  EXPECT_TRUE(absl::IsNotFound(Open("/a", 0, 1, ::geteuid() + 1).status()));
  // Everybody may read it, but not write it.
  files_.Put("/b", "0123456789", 0664);
  EXPECT_TRUE(absl::IsNotFound(Open("/b", 0, 1, ::geteuid() + 1).status()));
  files_.Put("/c", "0123456789", 0666);
  EXPECT_TRUE(Open("/c", 0, 1, ::geteuid() + 1).ok());
}

TEST_F(SharedRegionTest, NamesAndSizesHaveBounds) {
  files_.Put("/a", "0123456789");
  const SharedRegion::Source source{.folder = files_.folder()};
  for (const size_t bytes : {size_t{0}, kMostRegionNameBytes + 1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(
        SharedRegion::Open({.name = std::string(bytes, 'n'),
                            .key = "/a",
                            .offset = 0,
                            .bytes = 1},
                           source)
            .status()));
  }
  EXPECT_THAT(std::string(Open("/a", 0, 0).status().message()),
              HasSubstr("byte_size of 0"));
}

}  // namespace
}  // namespace gpupool::server
