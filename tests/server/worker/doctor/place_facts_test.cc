#include "server/worker/doctor/place_facts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <cstdlib>
#include <filesystem>

#include "server/ipc/unique_fd.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
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
  // Not for root either.
  const StateFacts facts = ReadStateFacts("/proc/self");
  EXPECT_NE(facts.write_error, "");
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
  // 0 is any free one.
  EXPECT_THAT(HeldPorts("127.0.0.1", {port, 0}), ElementsAre(port));
  EXPECT_THAT(HeldPorts("127.0.0.1", {}), IsEmpty());
}

}  // namespace
}  // namespace gpupool::server
