#include "engine/data/bytes/zip_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Zip;
using ::testing::HasSubstr;

// Opens and reads every member. Must never crash, whatever the bytes are.
absl::Status ReadEverything(const std::string& bytes) {
  auto archive = ZipArchive::Open(bytes);
  if (!archive.ok()) return archive.status();
  for (const ZipMember& member : archive->members()) {
    auto stream = archive->OpenMember(member);
    if (!stream.ok()) return stream.status();
    std::string buffer(64, '\0');
    for (;;) {
      auto count = (*stream)->Read(absl::MakeSpan(buffer.data(), 64));
      if (!count.ok()) return count.status();
      if (*count == 0) break;
    }
  }
  return absl::OkStatus();
}

TEST(ZipArchiveTest, FindsMembersByName) {
  const std::string bytes = Zip({{"a", "1"}, {"b", "22"}}, false);
  auto archive = ZipArchive::Open(bytes);
  ASSERT_TRUE(archive.ok()) << archive.status();
  ASSERT_NE(archive->Find("b"), nullptr);
  EXPECT_EQ(archive->Find("b")->bytes, 2u);
  EXPECT_EQ(archive->Find("c"), nullptr);
  EXPECT_TRUE(ReadEverything(bytes).ok());
}

TEST(ZipArchiveTest, AnEmptyArchiveHasNoMembers) {
  const std::string bytes = Zip({}, false);
  auto archive = ZipArchive::Open(bytes);
  ASSERT_TRUE(archive.ok());
  EXPECT_TRUE(archive->members().empty());
}

TEST(ZipArchiveTest, RefusesWhatIsNoArchive) {
  EXPECT_THAT(ZipArchive::Open("hello").status().message(),
              HasSubstr("too short"));
  EXPECT_THAT(ZipArchive::Open(std::string(100, 'x')).status().message(),
              HasSubstr("end record is missing"));
}

TEST(ZipArchiveTest, AnyCutOrFlippedByteIsAnErrorOrHarmless) {
  const std::string whole =
      Zip({{"a.npy", std::string(300, 'a')}, {"b.npy", "short"}}, true);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(ReadEverything(whole.substr(0, size)).ok()) << size;
  }
  const unsigned seed = 7;
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 5000; ++i) {
    std::string spoiled = whole;
    for (int flips = 0; flips < 3; ++flips) {
      spoiled[random() % spoiled.size()] ^= static_cast<char>(random());
    }
    ReadEverything(spoiled).IgnoreError();
  }
}

}  // namespace
}  // namespace gpupool::engine
