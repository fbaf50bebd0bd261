#include "client/files/sample_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <string>

namespace gpupool::client {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SampleFolderTest : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& bytes) {
    const fs::path path = folder_ / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << bytes;
  }

  absl::StatusOr<SampleList> List() { return ListSamples(folder_.string()); }

  std::string RefusalOfList() {
    const auto list = List();
    EXPECT_TRUE(absl::IsInvalidArgument(list.status())) << list.status();
    return std::string(list.status().message());
  }

  std::string Pack() {
    auto list = List();
    EXPECT_TRUE(list.ok()) << list.status();
    SampleFolder packer(*std::move(list));
    std::string archive, chunk;
    do {
      const absl::Status read = packer.ReadChunk(chunk);
      EXPECT_TRUE(read.ok()) << read;
      if (!read.ok()) break;
      EXPECT_LE(chunk.size(), size_t{1} << 20);
      archive += chunk;
    } while (!chunk.empty());
    return archive;
  }

  const fs::path folder_ =
      fs::temp_directory_path() /
      ("gpupool-sample-folder-" + std::to_string(::getpid()));
};

TEST_F(SampleFolderTest, ListsImagesByNameAndTellsWhatIsLeftOut) {
  Write("dog/b.PNG", "12");
  Write("cat/deep/a.jpeg", "1");
  Write("cat/notes.txt", "x");
  Write("cat/.hidden.jpg", "x");
  Write(".cache/a.jpg", "x");
  Write("readme.md", "x");
  const auto list = List();
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->samples.size(), 2u);
  EXPECT_EQ(list->samples[0].name, "cat/deep/a.jpeg");
  EXPECT_EQ(list->samples[1].name, "dog/b.PNG");
  EXPECT_EQ(list->samples[1].bytes, 2u);
  EXPECT_THAT(list->left_out, ElementsAre("cat/notes.txt", "readme.md"));
}

TEST_F(SampleFolderTest, RefusesFoldersThatAreNoClasses) {
  Write("readme.md", "x");
  EXPECT_THAT(RefusalOfList(), HasSubstr("holds no images (.jpg, .jpeg, .png) "
                                         "and no recordings (.wav, .flac)"));
  Write("a.jpg", "x");
  EXPECT_THAT(RefusalOfList(), HasSubstr("/a.jpg lies in no class"));
  fs::remove(folder_ / "a.jpg");
  Write("cat/a.jpg", "x");
  Write("dog/a.txt", "x");
  EXPECT_THAT(RefusalOfList(), HasSubstr("/dog is the folder of a class"));
  EXPECT_TRUE(absl::IsNotFound(ListSamples("/no/such/folder").status()));
}

TEST_F(SampleFolderTest, ListsRecordings) {
  Write("high/a.WAV", "12");
  Write("low/b.flac", "1");
  Write("low/c.mp3", "x");
  const auto list = List();
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_EQ(list->kind, SampleKind::kAudio);
  ASSERT_EQ(list->samples.size(), 2u);
  EXPECT_EQ(list->samples[0].name, "high/a.WAV");
  EXPECT_EQ(list->samples[1].name, "low/b.flac");
  EXPECT_THAT(list->left_out, ElementsAre("low/c.mp3"));
  fs::create_directories(folder_ / "none");
  EXPECT_THAT(RefusalOfList(),
              HasSubstr("/none is the folder of a class without recordings "
                        "(.wav and .flac)"));
}

TEST_F(SampleFolderTest, RefusesImagesAndRecordingsTogether) {
  Write("a/1.jpg", "x");
  Write("b/1.wav", "x");
  EXPECT_THAT(RefusalOfList(), HasSubstr("holds images and recordings"));
}

TEST_F(SampleFolderTest, MakesTheSameArchiveEveryTime) {
  const std::string large((1 << 20) + 100, 'x');
  Write("b/large.jpg", large);
  Write("a/small.png", "12345");
  const std::string archive = Pack();
  // A header and one block, a header and the rounded file, and the end.
  EXPECT_EQ(archive.size(), 512u + 512 + 512 + (1 << 20) + 512 + 1024);
  EXPECT_EQ(archive.substr(0, 12), std::string("a/small.png\0", 12));
  EXPECT_EQ(archive.substr(124, 11), "00000000005");
  EXPECT_EQ(archive.substr(512, 6), std::string("12345\0", 6));
  EXPECT_EQ(archive.substr(1024, 11), "b/large.jpg");
  EXPECT_EQ(archive.substr(1536, large.size()), large);
  const auto old = fs::file_time_type::clock::now() - std::chrono::hours(99);
  fs::last_write_time(folder_ / "a/small.png", old);
  EXPECT_EQ(Pack(), archive);
}

TEST_F(SampleFolderTest, LongNamesHaveARecordOfTheirOwn) {
  const std::string name = "c/" + std::string(120, 'n') + ".jpg";
  Write(name, "1");
  const std::string archive = Pack();
  EXPECT_EQ(archive[156], 'x');
  // 6 bytes of " path=", the newline, and three digits of the length.
  EXPECT_EQ(archive.substr(512, name.size() + 10),
            std::to_string(name.size() + 10) + " path=" + name + "\n");
  EXPECT_EQ(archive.substr(1024, 100), name.substr(0, 100));
}

TEST_F(SampleFolderTest, AFileThatChangesIsAnError) {
  Write("a/1.jpg", "12345");
  for (const std::string bytes : {"1234", "123456"}) {
    auto list = List();
    ASSERT_TRUE(list.ok()) << list.status();
    list->samples[0].bytes = 5;
    Write("a/1.jpg", bytes);
    SampleFolder packer(*std::move(list));
    std::string chunk;
    EXPECT_TRUE(absl::IsDataLoss(packer.ReadChunk(chunk)));
  }
}

}  // namespace
}  // namespace gpupool::client
