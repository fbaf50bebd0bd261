#include "client/cli/contexts/context_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/store/temp_dir.h"

namespace gpupool::client {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class ContextFileTest : public ::testing::Test {
 protected:
  static unsigned ModeOf(const std::string& path) {
    struct stat status = {};
    EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
    return status.st_mode & 07777;
  }

  absl::Status Add(const std::string& name) const {
    return UpdateContextFile(path_, [&](ContextList& list) {
      list.contexts[name] = {.address = "h:1"};
      return absl::OkStatus();
    });
  }

  // Writes the file as somebody with an editor does.
  void Write(const std::string& text) const {
    std::filesystem::create_directories(folder_);
    std::ofstream(path_) << text;
    ::chmod(path_.c_str(), 0600);
  }

  absl::Status Read() const { return ReadContextFile(path_).status(); }

  server::TempDir parent_;
  const std::string folder_ = parent_ / "config/gpupool";
  const std::string path_ = folder_ + "/contexts.yaml";
};

TEST_F(ContextFileTest, IsForItsUserAloneWhateverTheUmask) {
  const mode_t before = ::umask(0);
  ASSERT_TRUE(Add("a").ok());
  ::umask(before);
  EXPECT_EQ(ModeOf(folder_), 0700u);
  EXPECT_EQ(ModeOf(path_), 0600u);
}

TEST_F(ContextFileTest, TakesAFolderFromOthers) {
  std::filesystem::create_directories(folder_);
  ASSERT_EQ(::chmod(folder_.c_str(), 0777), 0);
  ASSERT_TRUE(Add("a").ok());
  EXPECT_EQ(ModeOf(folder_), 0700u);
}

TEST_F(ContextFileTest, AFileThatIsNotThereHasNoContexts) {
  const auto list = ReadContextFile(path_);
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_TRUE(list->contexts.empty());
}

TEST_F(ContextFileTest, AFailedChangeLeavesTheFile) {
  ASSERT_TRUE(Add("a").ok());
  const absl::Status failed = UpdateContextFile(path_, [](ContextList& list) {
    list.contexts.clear();
    return absl::AlreadyExistsError("no");
  });
  EXPECT_EQ(failed.message(), "no");
  EXPECT_EQ(ReadContextFile(path_)->contexts.size(), 1u);
}

TEST_F(ContextFileTest, ABrokenFileIsNotReplaced) {
  Write("contexts: [");
  EXPECT_THAT(Add("a").message(), HasSubstr(path_ + ":1:"));
  EXPECT_EQ(std::filesystem::file_size(path_), 11u);
}

TEST_F(ContextFileTest, ChangesAtOnceAreAllKept) {
  constexpr int kThreads = 8;
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < kThreads; ++i) {
      threads.emplace_back(
          [this, i] { EXPECT_TRUE(Add(absl::StrCat("c", i)).ok()); });
    }
  }
  EXPECT_EQ(ReadContextFile(path_)->contexts.size(), size_t{kThreads});
}

TEST_F(ContextFileTest, RefusesAFileThatOthersMayWrite) {
  Write("contexts: {}");
  for (const mode_t mode : {0620, 0602}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    EXPECT_EQ(Read().code(), absl::StatusCode::kPermissionDenied);
    EXPECT_THAT(Read().message(),
                AllOf(HasSubstr(path_), HasSubstr("chmod 600")));
  }
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  EXPECT_TRUE(Read().ok());
}

TEST_F(ContextFileTest, RefusesAFileOfAnotherUser) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give files away";
  Write("contexts: {}");
  ASSERT_EQ(::chown(path_.c_str(), 65534, 65534), 0);
  EXPECT_EQ(Read().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Read().message(), HasSubstr("another user (65534)"));
}

TEST_F(ContextFileTest, NamesTheFileThatCannotBeRead) {
  if (::geteuid() == 0) GTEST_SKIP() << "root can read every file";
  Write("contexts: {}");
  ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
  EXPECT_EQ(Read().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(Read().message(),
              AllOf(HasSubstr(path_), HasSubstr("Permission denied")));
}

TEST_F(ContextFileTest, RefusesWhatIsNoSmallFile) {
  Write(std::string(kMostContextFileBytes + 1, '#'));
  EXPECT_THAT(Read().message(),
              AllOf(HasSubstr(path_), HasSubstr("1048577 bytes, over")));
  std::filesystem::remove(path_);
  std::filesystem::create_directory(path_);
  EXPECT_THAT(Read().message(), HasSubstr("is not a file"));
  std::filesystem::remove(path_);
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THAT(Read().message(), HasSubstr("is not a file"))
      << "nobody waits for a writer of a pipe";
}

TEST_F(ContextFileTest, KeepsOnlyWhatItReadsAgain) {
  for (const auto& [name, ca] :
       {std::pair("a", "/\xff.pem"), std::pair("bad name", "/ca.pem")}) {
    const absl::Status status =
        UpdateContextFile(path_, [&](ContextList& list) {
          list.contexts[name] = {.address = "h:1", .tls = {.ca = ca}};
          return absl::OkStatus();
        });
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_FALSE(std::filesystem::exists(path_));
  }
}

TEST_F(ContextFileTest, DoesNotGrowOverItsLimit) {
  const absl::Status grown = UpdateContextFile(path_, [](ContextList& list) {
    const std::string path = "/" + std::string(kLongestContextValue - 1, 'a');
    for (size_t i = 0; i < kMostContexts; ++i) {
      list.contexts[absl::StrCat("c", i)] = {
          .address = "h:1", .tls = {.ca = path}, .token_file = path};
    }
    return absl::OkStatus();
  });
  EXPECT_EQ(grown.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST(ContextFilePathTest, FollowsXdgConfigHomeThenHome) {
  const char* const home = std::getenv("HOME");
  const std::string kept = home == nullptr ? "" : home;
  ::setenv("HOME", "/h", 1);
  ::setenv("XDG_CONFIG_HOME", "/x", 1);
  EXPECT_EQ(*ContextFilePath(), "/x/gpupool/contexts.yaml");
  for (const char* none : {"", "relative"}) {
    ::setenv("XDG_CONFIG_HOME", none, 1);
    EXPECT_EQ(*ContextFilePath(), "/h/.config/gpupool/contexts.yaml");
  }
  ::unsetenv("XDG_CONFIG_HOME");
  EXPECT_EQ(*ContextFilePath(), "/h/.config/gpupool/contexts.yaml");
  ::unsetenv("HOME");
  EXPECT_THAT(ContextFilePath().status().message(), HasSubstr("HOME"));
  if (home != nullptr) ::setenv("HOME", kept.c_str(), 1);
}

}  // namespace
}  // namespace gpupool::client
