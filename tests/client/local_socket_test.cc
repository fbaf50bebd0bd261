#include "client/local_socket.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/server/store/temp_dir.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

TEST(LocalSocketTest, AnAddressHasAScheme) {
  EXPECT_TRUE(IsSocketAddress("unix:/run/x"));
  EXPECT_FALSE(IsSocketAddress("unix"));
  EXPECT_FALSE(IsSocketAddress("unix.example.org:8001"));
  EXPECT_FALSE(IsSocketAddress("127.0.0.1:8001"));
}

TEST(LocalSocketTest, ThePathHasALimit) {
  EXPECT_TRUE(CheckSocketAddress("unix:x").ok());
  EXPECT_TRUE(CheckSocketAddress("unix:" + std::string(107, 'x')).ok());
  const absl::Status refused =
      CheckSocketAddress("unix:" + std::string(108, 'x'));
  EXPECT_TRUE(absl::IsInvalidArgument(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("has 108 bytes, and at most 107 are possible"));
  EXPECT_TRUE(absl::IsInvalidArgument(CheckSocketAddress("unix:")));
}

TEST(LocalSocketTest, ThePathIsEscapedForGrpc) {
  EXPECT_EQ(TargetOf("unix:/run/a-b_c.~1/x"), "unix:/run/a-b_c.~1/x");
  EXPECT_EQ(TargetOf("unix:a b%#?\xc3\xa9"), "unix:a%20b%25%23%3f%c3%a9");
  EXPECT_EQ(TargetOf("[::1]:8001"), "[::1]:8001");
}

TEST(LocalSocketTest, OursIsASocketAtWhichSomebodyListens) {
  const server::TempDir folder;
  const std::string path = folder / "socket";
  EXPECT_FALSE(IsOurSocket(path));
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof(address.sun_path) - 1);
  ASSERT_EQ(
      bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
      0);
  EXPECT_FALSE(IsOurSocket(path)) << "nobody listens yet";
  ASSERT_EQ(listen(fd, 8), 0);
  EXPECT_TRUE(IsOurSocket(path));
  const std::string link = folder / "link";
  ASSERT_EQ(symlink(path.c_str(), link.c_str()), 0);
  EXPECT_FALSE(IsOurSocket(link)) << "it may lead elsewhere soon";
  const server::TempDir other;
  const std::string folder_link = other / "state";
  ASSERT_EQ(symlink(folder.path().c_str(), folder_link.c_str()), 0);
  EXPECT_TRUE(IsOurSocket(folder_link + "/socket"));
  if (lchown(folder_link.c_str(), 65534, 65534) == 0) {
    EXPECT_FALSE(IsOurSocket(folder_link + "/socket")) << "somebody's link";
  }
  ASSERT_EQ(chmod(folder.path().c_str(), 0777), 0);
  EXPECT_FALSE(IsOurSocket(path)) << "everybody may put another one there";
  ASSERT_EQ(chmod(folder.path().c_str(), 0700), 0);
  // Only root can give a file away.
  if (chown(path.c_str(), 65534, 65534) == 0) {
    EXPECT_FALSE(IsOurSocket(path)) << "somebody else's";
  }
  close(fd);
  EXPECT_FALSE(IsOurSocket(path)) << "the server has ended";
  std::ofstream(folder / "file") << "x";
  EXPECT_FALSE(IsOurSocket(folder / "file"));
}

}  // namespace
}  // namespace gpupool::client
