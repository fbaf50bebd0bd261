#include "engine/data/image_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/data/columns.h"
#include "tests/engine/data/image_files.h"
#include "tests/engine/scratch_folder.h"

namespace gpupool::engine {
namespace {

using files::Jpeg;
using files::Plain;
using files::Png;
using files::Tar;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns a PNG file with one pixel.
std::string Dot(const std::string& pixel) { return Png(Plain(1, 1, pixel)); }

absl::StatusOr<Table> ReadArchive(const std::string& archive,
                                  const ImageOptions& options = {},
                                  const ReadLimits& limits = {}) {
  return ReadImages({{"a.tar", archive}}, options, limits);
}

std::string RefusalOf(const std::string& archive,
                      const ImageOptions& options = {}) {
  const auto table = ReadArchive(archive, options);
  EXPECT_TRUE(absl::IsInvalidArgument(table.status())) << table.status();
  return std::string(table.status().message());
}

TEST(ImageReaderTest, FoldersAreClassesInTheOrderOfTheirNames) {
  const auto table = ReadArchive(Tar({{"dog/1.png", Dot("\1\2\3")},
                                      {"./cat/deep/2.PNG", Dot("\4\5\6")},
                                      {"dog/notes.txt", "left out"},
                                      {"dog/.3.png", "hidden"}}));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(table->class_names, ElementsAre("cat", "dog"));
  EXPECT_EQ(table->features().type, ElementType::kUint8);
  EXPECT_THAT(table->features().shape, ElementsAre(3, 1, 1));
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(table->labels().type, ElementType::kInt64);
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1, 0));
  EXPECT_EQ(table->labels().facts.class_count(), 2u);
}

TEST(ImageReaderTest, RowsHaveTheirChannelsOneAfterTheOther) {
  const files::Picture two = {2, 1, "\1\2\3\4\5\6"};
  const auto table =
      ReadArchive(Tar({{"a/1.png", Png(two)}, {"b/2.png", Png(two)}}));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->features().shape, ElementsAre(3, 1, 2));
  EXPECT_THAT(Floats(table->features()),
              ElementsAre(1, 4, 2, 5, 3, 6, 1, 4, 2, 5, 3, 6));
}

TEST(ImageReaderTest, FilesBesideImagesNameClasses) {
  const auto named = ReadArchive(Tar({{"0.jpg", Jpeg(Plain(8, 8, "\1"))},
                                      {"0.cls", "zebra\n"},
                                      {"1.cls", "ant"},
                                      {"1.jpg", Jpeg(Plain(8, 8, "\2"))},
                                      {"1.json", "{}"}}));
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_THAT(named->class_names, ElementsAre("ant", "zebra"));
  EXPECT_THAT(Floats(named->labels()), ElementsAre(1, 0));
}

TEST(ImageReaderTest, WholeNumbersBesideImagesAreTheClasses) {
  const std::string first = Tar({{"0.png", Dot("\1\1\1")}, {"0.cls", "10"}});
  const std::string second = Tar({{"0.png", Dot("\2\2\2")}, {"0.cls", "2"}});
  const auto table = ReadImages({{"a.tar", first}, {"b.tar", second}}, {}, {});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->class_names, IsEmpty());
  EXPECT_THAT(Floats(table->labels()), ElementsAre(10, 2));
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 1, 1, 2, 2, 2));
  const auto one = ReadArchive(second);
  ASSERT_TRUE(one.ok()) << one.status();
  EXPECT_THAT(Floats(one->labels()), ElementsAre(2));
}

TEST(ImageReaderTest, TakesTheClassesOfAnotherDataset) {
  const std::string archive = Tar({{"dog/1.png", Dot("\1\2\3")}});
  const auto table = ReadArchive(archive, {.classes = {"wolf", "dog", "cat"}});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_THAT(table->class_names, ElementsAre("wolf", "dog", "cat"));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1));
  EXPECT_THAT(RefusalOf(archive, {.classes = {"wolf", "cat"}}),
              HasSubstr("a.tar: dog/1.png is of the class \"dog\", which is "
                        "none of the 2 classes"));
}

TEST(ImageReaderTest, ResizesAndTurnsGrey) {
  const std::string archive =
      Tar({{"a/1.png", Png(Plain(6, 4, "\x0a\x0a\x0a"))},
           {"b/2.png", Png(Plain(3, 9, "\x14\x14\x14"))}});
  for (const ImageFit fit : {ImageFit::kCrop, ImageFit::kStretch}) {
    const auto table =
        ReadArchive(archive, {.size = {2, 1}, .channels = 1, .fit = fit});
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_THAT(table->features().shape, ElementsAre(1, 1, 2));
    EXPECT_THAT(Floats(table->features()), ElementsAre(10, 10, 20, 20));
  }
  EXPECT_THAT(RefusalOf(archive),
              HasSubstr("b/2.png has 3 x 9 pixels, but the first image, "
                        "a/1.png, has 6 x 4"));
}

TEST(ImageReaderTest, NamesTheImageThatIsBroken) {
  EXPECT_THAT(RefusalOf(Tar({{"a/1.png", Dot("\1\2\3")},
                             {"b/2.jpg", "\xff\xd8\xff\xe0 cut"}})),
              HasSubstr("a.tar: b/2.jpg: is no JPEG file"));
  EXPECT_THAT(RefusalOf(Tar({{"a/1.webp", "RIFF"}})),
              HasSubstr("a/1.webp: only JPEG and PNG"));
}

TEST(ImageReaderTest, RefusesImagesWithoutClassesAndClassesWithoutImages) {
  const std::string dot = Dot("\1\2\3");
  EXPECT_THAT(RefusalOf(Tar({{"1.png", dot}})),
              HasSubstr("1.png has no class"));
  EXPECT_THAT(RefusalOf(Tar({{"1.png", dot}, {"1.cls", "0"}, {"2.png", dot}})),
              HasSubstr("2.png has no class: other images have"));
  EXPECT_THAT(RefusalOf(Tar({{"all/a/1.png", dot}, {"all/b/1.png", dot}})),
              HasSubstr("2 images of one class only, \"all\""));
  EXPECT_THAT(RefusalOf(Tar({{"a/readme.txt", "x"}})),
              HasSubstr("holds no image"));
  EXPECT_THAT(RefusalOf(Tar({{"a/1.png", dot}, {"a/1.png", dot}})),
              HasSubstr("a/1.png is there more than once"));
  EXPECT_THAT(RefusalOf(Tar({{"a\xff/1.png", dot}})), HasSubstr("UTF-8"));
}

TEST(ImageReaderTest, LargeTablesGoToTheDiskOrAreRefused) {
  const ScratchFolder folder;
  const std::string archive =
      Tar({{"a/1.png", Dot("\1\2\3")}, {"b/2.png", Dot("\4\5\6")}});
  const auto table = ReadArchive(
      archive, {}, {.memory_bytes = 0, .unpack_dir = folder.path()});
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->host_bytes(), 0u);
  EXPECT_THAT(Floats(table->features()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(Floats(table->labels()), ElementsAre(0, 1));
  // 3 bytes of pixels and 8 of the class, twice.
  const auto refused = ReadArchive(archive, {}, {.max_table_bytes = 21});
  EXPECT_TRUE(absl::IsResourceExhausted(refused.status()));
  EXPECT_THAT(refused.status().message(), HasSubstr("--image-size"));
  EXPECT_TRUE(ReadArchive(archive, {}, {.max_table_bytes = 22}).ok());
}

}  // namespace
}  // namespace gpupool::engine
