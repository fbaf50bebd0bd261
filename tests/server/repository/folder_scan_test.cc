#include "server/repository/folder_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class FolderScanTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "/scanXXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    top_ = name;
    root_ = top_ + "/root";
    std::filesystem::create_directories(root_);
  }
  void TearDown() override { std::filesystem::remove_all(top_); }

  void Write(const std::string& path, const std::string& text = "x") {
    const std::filesystem::path full = root_ + "/" + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  RepositoryLook Look() { return LookAtRepositories({root_}); }

  std::string top_;
  std::string root_;
};

TEST_F(FolderScanTest, FindsVersionsAndConfigs) {
  Write("b/10/model.onnx");
  Write("b/2/model.onnx");
  Write("b/2/weights.bin", "1234");
  Write("b/config.pbtxt", "name: \"b\"");
  Write("a/1/model.onnx");
  const RepositoryLook look = Look();
  EXPECT_THAT(look.remarks, IsEmpty());
  EXPECT_THAT(look.missing_roots, IsEmpty());
  ASSERT_THAT(look.models, SizeIs(2));
  EXPECT_EQ(look.models[0].name, "a");
  EXPECT_FALSE(look.models[0].config.has_value());
  const ModelFolder& b = look.models[1];
  EXPECT_EQ(b.root, root_);
  EXPECT_EQ(b.config->bytes, 9u);
  ASSERT_THAT(b.versions, SizeIs(2));
  EXPECT_EQ(b.versions[0].number, 2u);
  EXPECT_EQ(b.versions[1].number, 10u);
  ASSERT_THAT(b.versions[0].files, SizeIs(2));
  EXPECT_EQ(b.versions[0].files[0].name, "model.onnx");
  EXPECT_EQ(b.versions[0].files[1].name, "weights.bin");
  EXPECT_EQ(b.versions[0].files[1].bytes, 4u);
}

TEST_F(FolderScanTest, AChangeOfAnInitialStateIsSeen) {
  Write("a/1/model.onnx");
  Write("a/initial_state/first", "12");
  const RepositoryLook look = Look();
  EXPECT_THAT(look.remarks, IsEmpty());
  ASSERT_THAT(look.models[0].initial_states, SizeIs(1));
  EXPECT_EQ(look.models[0].initial_states[0].name, "first");
  Write("a/initial_state/first", "123");
  EXPECT_FALSE(look.models[0] == Look().models[0]);
}

TEST_F(FolderScanTest, NumbersOfVersionsHaveALimit) {
  Write("a/1000000000000000/model.onnx");
  Write("a/1000000000000001/model.onnx");
  Write("a/9223372036854775807/model.onnx");
  const RepositoryLook look = Look();
  ASSERT_THAT(look.models, SizeIs(1));
  EXPECT_THAT(look.models[0].versions, SizeIs(1));
  ASSERT_THAT(look.remarks, SizeIs(2));
  EXPECT_THAT(look.remarks[0], HasSubstr("a version, 1 to 1000000000000000"));
}

TEST_F(FolderScanTest, TwoLooksAtTheSameFilesAreEqual) {
  Write("a/1/model.onnx");
  const RepositoryLook before = Look();
  EXPECT_EQ(before.models, Look().models);
  Write("a/1/model.onnx", "longer");
  EXPECT_NE(before.models, Look().models);
}

TEST_F(FolderScanTest, AFileWithAnotherTimeDiffers) {
  Write("a/1/model.onnx");
  const RepositoryLook before = Look();
  const std::filesystem::path file = root_ + "/a/1/model.onnx";
  std::filesystem::last_write_time(
      file, std::filesystem::last_write_time(file) + std::chrono::seconds(1));
  EXPECT_NE(before.models, Look().models);
}

TEST_F(FolderScanTest, AnotherLabelFileMakesADifferentModel) {
  Write("a/1/model.onnx");
  const RepositoryLook before = Look();
  Write("a/labels.txt");
  const RepositoryLook after = Look();
  EXPECT_THAT(after.remarks, IsEmpty());
  ASSERT_THAT(after.models, SizeIs(1));
  ASSERT_THAT(after.models[0].labels, SizeIs(1));
  EXPECT_EQ(after.models[0].labels[0].name, "labels.txt");
  EXPECT_NE(before.models, after.models);
}

TEST_F(FolderScanTest, FoldersThatAreNoVersionsAreLeftOut) {
  Write("a/1/model.onnx");
  for (const char* name :
       {"0", "01", "-1", "1a", "18446744073709551616", "9223372036854775808"}) {
    Write(std::string("a/") + name + "/model.onnx");
  }
  Write("a/net.onnx");
  Write("a/7");
  const RepositoryLook look = Look();
  ASSERT_THAT(look.models, SizeIs(1));
  ASSERT_THAT(look.models[0].versions, SizeIs(1));
  EXPECT_THAT(look.remarks, SizeIs(8));
  for (const std::string& remark : look.remarks) {
    EXPECT_THAT(remark, AllOf(HasSubstr(root_), HasSubstr("left out")));
  }
}

TEST_F(FolderScanTest, OddNamesAreLeftOutAndEscaped) {
  Write("two words/1/model.onnx");
  Write("line\nbreak/1/model.onnx");
  Write("file.txt");
  Write(".git/config");
  const RepositoryLook look = Look();
  EXPECT_THAT(look.models, IsEmpty());
  ASSERT_THAT(look.remarks, SizeIs(3));
  for (const std::string& remark : look.remarks) {
    EXPECT_EQ(remark.find('\n'), std::string::npos) << remark;
  }
}

TEST_F(FolderScanTest, AVersionNeedsAModelFile) {
  Write("a/1/other.onnx");
  Write("a/2/model.onnx", "");
  const RepositoryLook look = Look();
  ASSERT_THAT(look.models, SizeIs(1));
  EXPECT_THAT(look.models[0].versions, IsEmpty());
  EXPECT_THAT(look.remarks,
              ElementsAre(HasSubstr("\"a/1\" is left out: it has no file"),
                          HasSubstr("\"a/2/model.onnx\" is left out: it is "
                                    "empty"),
                          HasSubstr("\"a/2\" is left out")));
}

TEST_F(FolderScanTest, EmptyFoldersOfVersionsAreKeptApart) {
  Write("a/config.pbtxt");
  std::filesystem::create_directories(root_ + "/a/10");
  Write("a/2/.gitkeep");
  Write("a/3/model.onnx");
  const RepositoryLook look = Look();
  EXPECT_THAT(look.remarks, IsEmpty());
  ASSERT_THAT(look.models, SizeIs(1));
  EXPECT_THAT(look.models[0].empty_versions, ElementsAre(2, 10));
  EXPECT_THAT(look.models[0].versions, SizeIs(1));
}

TEST_F(FolderScanTest, LinksThatLeadOutAreLeftOut) {
  std::ofstream(top_ + "/outside.onnx") << "x";
  std::filesystem::create_directories(top_ + "/other/1");
  std::ofstream(top_ + "/other/1/model.onnx") << "x";
  std::filesystem::create_directories(root_ + "/a/1");
  std::filesystem::create_symlink(top_ + "/outside.onnx",
                                  root_ + "/a/1/model.onnx");
  std::filesystem::create_directory_symlink("../other", root_ + "/b");
  const RepositoryLook look = Look();
  ASSERT_THAT(look.models, SizeIs(1));
  EXPECT_THAT(look.models[0].versions, IsEmpty());
  EXPECT_THAT(look.remarks,
              ElementsAre(HasSubstr("\"a/1/model.onnx\" is a link that leads "
                                    "out"),
                          HasSubstr("\"a/1\""),
                          HasSubstr("\"b\" is a link that leads out")));
}

TEST_F(FolderScanTest, LinksInsideAreFollowed) {
  Write("a/1/model.onnx");
  std::filesystem::create_directory_symlink("a", root_ + "/b");
  EXPECT_THAT(Look().models, SizeIs(2));
}

TEST_F(FolderScanTest, SpecialFilesAreLeftOut) {
  std::filesystem::create_directories(root_ + "/a/1");
  ASSERT_EQ(mkfifo((root_ + "/a/1/model.onnx").c_str(), 0600), 0);
  EXPECT_THAT(Look().remarks,
              ElementsAre(HasSubstr("no regular file"), HasSubstr("\"a/1\"")));
}

TEST_F(FolderScanTest, AConfigThatCannotBeReadIsNoMissingOne) {
  Write("a/1/model.onnx");
  ASSERT_EQ(mkfifo((root_ + "/a/config.pbtxt").c_str(), 0600), 0);
  Write("b/1/model.onnx");
  std::filesystem::create_symlink("/etc/hostname", root_ + "/b/config.pbtxt");
  const RepositoryLook look = Look();
  ASSERT_THAT(look.models, SizeIs(2));
  EXPECT_THAT(look.models[0].config_error, HasSubstr("no regular file"));
  EXPECT_THAT(look.models[1].config_error, HasSubstr("leads out"));
}

TEST_F(FolderScanTest, TheFirstOfTwoRootsWins) {
  Write("a/1/model.onnx");
  const std::string second = top_ + "/second";
  std::filesystem::create_directories(second + "/a/2");
  std::filesystem::create_directories(second + "/b");
  std::ofstream(second + "/a/2/model.onnx") << "x";
  const RepositoryLook look = LookAtRepositories({root_, second});
  ASSERT_THAT(look.models, SizeIs(2));
  EXPECT_EQ(look.models[0].root, root_);
  EXPECT_EQ(look.models[1].root, second);
  EXPECT_THAT(look.remarks,
              ElementsAre(AllOf(HasSubstr(second), HasSubstr("\"a\""))));
}

TEST_F(FolderScanTest, ARootThatIsGoneIsNoEmptyOne) {
  const RepositoryLook look = LookAtRepositories({top_ + "/none", root_});
  EXPECT_THAT(look.missing_roots, ElementsAre(top_ + "/none"));
  EXPECT_THAT(look.remarks, ElementsAre(HasSubstr(top_ + "/none")));
}

}  // namespace
}  // namespace gpupool::server
