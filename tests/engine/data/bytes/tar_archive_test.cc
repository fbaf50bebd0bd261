#include "engine/data/bytes/tar_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/engine/data/files.h"
#include "tests/engine/data/image_files.h"

namespace gpupool::engine {
namespace {

using files::Tar;
using files::TarHeader;
using files::TarPart;
using ::testing::HasSubstr;

std::string RefusalOf(const std::string& archive) {
  const auto members = ReadTar(archive);
  EXPECT_TRUE(absl::IsInvalidArgument(members.status())) << members.status();
  return std::string(members.status().message());
}

TEST(TarArchiveTest, FindsFilesInTheirOrder) {
  const std::string long_text(1500, 'x');
  const std::string archive =
      TarPart("b/", "", '5') +
      Tar({{"b/two.png", long_text}, {"./a//one.jpg", "1"}, {"empty", ""}});
  const auto members = ReadTar(archive);
  ASSERT_TRUE(members.ok()) << members.status();
  ASSERT_EQ(members->size(), 3u);
  EXPECT_EQ(members->at(0).name, "b/two.png");
  EXPECT_EQ(members->at(0).bytes, long_text);
  EXPECT_EQ(members->at(1).name, "a/one.jpg") << "without . and empty parts";
  EXPECT_EQ(members->at(1).bytes, "1");
  EXPECT_EQ(members->at(2).bytes, "");
}

TEST(TarArchiveTest, ReadsLongNamesOfPosixAndGnu) {
  const std::string name = std::string(150, 'd') + "/x.jpg";
  // " path=", the newline, and three digits for the length itself.
  const std::string record =
      std::to_string(name.size() + 10) + " path=" + name + "\n";
  for (const std::string& note : {TarPart("pax", record, 'x'),
                                  TarPart("././@LongLink", name + '\0', 'L')}) {
    const std::string archive = note + Tar({{"short", "1"}, {"next.jpg", "2"}});
    const auto members = ReadTar(archive);
    ASSERT_TRUE(members.ok()) << members.status();
    ASSERT_EQ(members->size(), 2u);
    EXPECT_EQ(members->at(0).name, name);
    EXPECT_EQ(members->at(1).name, "next.jpg") << "for one member only";
  }
}

TEST(TarArchiveTest, AnEndMarkIsNotNeeded) {
  const auto members = ReadTar(TarPart("a.jpg", "1"));
  ASSERT_TRUE(members.ok()) << members.status();
  EXPECT_EQ(members->size(), 1u);
}

TEST(TarArchiveTest, RefusesNamesThatLeaveTheArchive) {
  EXPECT_THAT(RefusalOf(Tar({{"/etc/passwd", "1"}})), HasSubstr("absolute"));
  EXPECT_THAT(RefusalOf(Tar({{"a/../../b.jpg", "1"}})),
              HasSubstr("\"a/../../b.jpg\" leaves the archive"));
}

TEST(TarArchiveTest, RefusesWhatIsNoFileByItsName) {
  EXPECT_THAT(RefusalOf(TarPart("cat/a.jpg", "", '2')),
              HasSubstr("\"cat/a.jpg\" is a link"));
  EXPECT_THAT(RefusalOf(TarPart("a", "", '1')), HasSubstr("--dereference"));
  EXPECT_THAT(RefusalOf(TarPart("a", "", '3')), HasSubstr("a device"));
  EXPECT_THAT(RefusalOf(TarPart("a", "", '6')), HasSubstr("a pipe"));
  EXPECT_THAT(RefusalOf(TarPart("a", "", 'S')), HasSubstr("a sparse file"));
  EXPECT_THAT(RefusalOf(TarPart("a", "", 'q')), HasSubstr("unknown type"));
}

TEST(TarArchiveTest, RefusesDamageAndOtherFiles) {
  std::string archive = Tar({{"a.jpg", "1"}});
  archive[0] = 'b';
  EXPECT_THAT(RefusalOf(archive), HasSubstr("byte 0 begins no header"));
  EXPECT_THAT(RefusalOf(files::Gzip(Tar({{"a.jpg", "1"}}))),
              HasSubstr("gunzip"));
  EXPECT_THAT(RefusalOf("short"), HasSubstr("in the middle of a header"));
  EXPECT_THAT(RefusalOf(TarHeader("a.jpg", 600) + std::string(512, 'x')),
              HasSubstr("in the middle of \"a.jpg\""));
  EXPECT_THAT(RefusalOf(TarPart("pax", "99 path=x\n", 'x')),
              HasSubstr("pax header is damaged"));
}

TEST(TarArchiveTest, SurvivesAnyDamage) {
  const std::string whole =
      TarPart("pax", "14 path=a.jpg\n", 'x') + Tar({{"b", "12"}});
  std::mt19937 random(5);
  for (int i = 0; i < 2000; ++i) {
    std::string archive = whole.substr(0, random() % (whole.size() + 1));
    for (int spoiled = 0; spoiled < 3 && !archive.empty(); ++spoiled) {
      archive[random() % archive.size()] = static_cast<char>(random());
    }
    const auto members = ReadTar(archive);
    if (!members.ok()) continue;
    for (const TarMember& member : *members) {
      EXPECT_GE(member.bytes.data(), archive.data());
      EXPECT_LE(member.bytes.data() + member.bytes.size(),
                archive.data() + archive.size());
    }
  }
}

}  // namespace
}  // namespace gpupool::engine
