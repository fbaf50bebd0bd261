#include "server/worker/doctor/place_facts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "server/ipc/unique_fd.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class PlaceFactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/placeXXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = std::filesystem::canonical(name);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path folder_;
};

TEST_F(PlaceFactsTest, AFolderThatWorksIsLeftAsItWas) {
  const StateFacts facts = ReadStateFacts(folder_.string());
  EXPECT_EQ(facts.existing, folder_.string());
  EXPECT_EQ(facts.write_error, "");
  EXPECT_EQ(facts.sync_error, "");
  EXPECT_GT(facts.free_bytes, 0u);
  EXPECT_FALSE(facts.held);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(PlaceFactsTest, OneThatIsNotThereIsNotMade) {
  const StateFacts facts = ReadStateFacts((folder_ / "a/b").string());
  EXPECT_EQ(facts.path, (folder_ / "a/b").string());
  EXPECT_EQ(facts.existing, folder_.string());
  EXPECT_EQ(facts.write_error, "");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
}

TEST_F(PlaceFactsTest, OneThatCannotBeWrittenSaysWhy) {
  if (::geteuid() == 0) GTEST_SKIP() << "root may write everywhere";
  ::chmod(folder_.c_str(), 0500);
  const StateFacts facts = ReadStateFacts((folder_ / "state").string());
  ::chmod(folder_.c_str(), 0700);
  EXPECT_EQ(facts.folder_error, "");
  EXPECT_EQ(facts.write_error, "Permission denied");
}

TEST_F(PlaceFactsTest, WhereNoFolderCanBeIsTold) {
  const auto error = [&](const std::filesystem::path& name) {
    return ReadStateFacts((folder_ / name).string()).folder_error;
  };
  const std::string folder = folder_.string();
  std::ofstream(folder_ / "text") << "text";
  ASSERT_EQ(::mkfifo((folder_ / "pipe").c_str(), 0600), 0);
  std::filesystem::create_symlink("loop", folder_ / "loop");
  std::filesystem::create_symlink("nowhere", folder_ / "link");
  EXPECT_EQ(error("text"), folder + "/text is a file");
  EXPECT_EQ(error("text/"), folder + "/text is a file");
  EXPECT_EQ(error("text/below"), folder + "/text is a file");
  EXPECT_EQ(error("pipe"), folder + "/pipe is no folder");
  EXPECT_EQ(error("loop"), folder + "/loop is a link that leads nowhere");
  EXPECT_EQ(error("link/below"), folder + "/link is a link that leads nowhere");
  EXPECT_EQ(error(std::string(300, 'x')), "File name too long");
  EXPECT_EQ(error("/dev/null"), "/dev/null is no folder");
  EXPECT_THAT(error("/proc/x"), HasSubstr("proc has the kernel's own files"));
  EXPECT_EQ(error("new/below"), "");
  EXPECT_EQ(error(""), "");
}

TEST_F(PlaceFactsTest, FoldersOfLibrariesMustBeThere) {
  std::ofstream(folder_ / "text") << "text";
  const std::string text = (folder_ / "text").string();
  EXPECT_THAT(FolderErrors(folder_.string() + "::/nope:" + text + ":."),
              ElementsAre("/nope is not there", text + " is no folder",
                          HasSubstr(". means another folder")));
  EXPECT_THAT(FolderErrors(""), IsEmpty());
}

TEST_F(PlaceFactsTest, AddressesAreNumbers) {
  EXPECT_TRUE(IsAddress("127.0.0.1"));
  EXPECT_TRUE(IsAddress("::1"));
  EXPECT_FALSE(IsAddress("nonsense"));
  EXPECT_FALSE(IsAddress(""));
}

TEST_F(PlaceFactsTest, MemoryIsNoDisk) {
  EXPECT_EQ(ReadStateFacts("/dev/shm").file_system, "tmpfs");
}

TEST_F(PlaceFactsTest, ADaemonHoldsItsFolder) {
  const UniqueFd lock(
      ::open((folder_ / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::flock(lock.get(), LOCK_EX | LOCK_NB), 0);
  EXPECT_TRUE(ReadStateFacts(folder_.string()).held);
  ASSERT_EQ(::flock(lock.get(), LOCK_UN), 0);
  EXPECT_FALSE(ReadStateFacts(folder_.string()).held);
}

TEST_F(PlaceFactsTest, PortsThatAreTakenAreTold) {
  const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at = {};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(
      ::bind(listener.get(), reinterpret_cast<sockaddr*>(&at), sizeof(at)), 0);
  ASSERT_EQ(::listen(listener.get(), 1), 0);
  socklen_t size = sizeof(at);
  ASSERT_EQ(
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&at), &size),
      0);
  const uint16_t port = ntohs(at.sin_port);
  // Port 0 means any free port.
  EXPECT_THAT(HeldPorts("127.0.0.1", {port, 0, port}), ElementsAre(port));
  EXPECT_THAT(HeldPorts("127.0.0.1", {}), IsEmpty());
}

}  // namespace
}  // namespace gpupool::server
