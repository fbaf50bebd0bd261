#include "server/worker/sandbox/landlock_rules.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "tests/server/worker/sandbox/child.h"

namespace gpupool::server {
namespace {

constexpr long kRulesetCall = 444;

long VersionOfLandlock() { return ::syscall(kRulesetCall, nullptr, 0, 1); }

// Runs `attempt` in a child for which only the rules hold.
int WithRules(const SandboxOptions& options,
              const std::function<int()>& attempt) {
  return InChild([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return RestrictFiles(options).ok() ? attempt() : kNoLayer;
  });
}

int ErrorOfOpen(const std::string& path, int flags) {
  return ::open(path.c_str(), flags | O_CLOEXEC, 0600) < 0 ? errno : 0;
}

// Returns the error of a connection to a port of this machine.
int ErrorOfConnect(uint16_t port) {
  const int made = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (made < 0) return errno;
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return ::connect(made, reinterpret_cast<const sockaddr*>(&address),
                   sizeof(address)) < 0
             ? errno
             : 0;
}

class LandlockRulesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (VersionOfLandlock() < 2) GTEST_SKIP() << "no Landlock";
    std::string pattern = ::testing::TempDir() + "/landlockXXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    for (const char* folder : {"own", "own/spool", "shared", "other"}) {
      std::filesystem::create_directory(Path(folder));
    }
    for (const char* file : {"own/file", "shared/file", "other/file"}) {
      std::ofstream(Path(file)) << "text";
    }
    options_.readable = {Path("shared"), Path("not-there")};
    options_.writable = {Path("own")};
  }
  void TearDown() override {
    if (!root_.empty()) std::filesystem::remove_all(root_);
  }
  std::string Path(const std::string& name) const {
    return absl::StrCat(root_, "/", name);
  }

  std::string root_;
  SandboxOptions options_;
};

TEST_F(LandlockRulesTest, NamedFoldersMayBeReadAndOthersNot) {
  EXPECT_EQ(
      WithRules(options_,
                [&] { return ErrorOfOpen(Path("shared/file"), O_RDONLY); }),
      0);
  EXPECT_EQ(
      WithRules(options_,
                [&] { return ErrorOfOpen(Path("other/file"), O_RDONLY); }),
      EACCES);
  EXPECT_EQ(
      WithRules(options_, [] { return ErrorOfOpen("/etc/shadow", O_RDONLY); }),
      EACCES);
}

TEST_F(LandlockRulesTest, OnlyTheOwnFolderMayBeWritten) {
  const int create = O_WRONLY | O_CREAT;
  EXPECT_EQ(
      WithRules(options_, [&] { return ErrorOfOpen(Path("own/new"), create); }),
      0);
  EXPECT_EQ(
      WithRules(options_,
                [&] { return ErrorOfOpen(Path("shared/file"), O_WRONLY); }),
      EACCES);
  EXPECT_EQ(WithRules(options_,
                      [&] { return ErrorOfOpen(Path("other/new"), create); }),
            EACCES);
  EXPECT_EQ(
      WithRules(options_, [] { return ErrorOfOpen("/tmp/outside", create); }),
      EACCES);
}

TEST_F(LandlockRulesTest, FilesMayMoveWithinTheOwnFolder) {
  EXPECT_EQ(WithRules(options_,
                      [&] {
                        const std::string from = Path("own/file");
                        const std::string to = Path("own/spool/file");
                        return ::rename(from.c_str(), to.c_str()) < 0 ? errno
                                                                      : 0;
                      }),
            0);
  EXPECT_NE(WithRules(options_,
                      [&] {
                        const std::string from = Path("own/spool/file");
                        const std::string to = Path("shared/moved");
                        return ::rename(from.c_str(), to.c_str()) < 0 ? errno
                                                                      : 0;
                      }),
            0);
}

TEST_F(LandlockRulesTest, LinksLeadNowhereElse) {
  EXPECT_EQ(WithRules(options_,
                      [&] {
                        const std::string link = Path("own/link");
                        const std::string target = Path("other/file");
                        if (::symlink(target.c_str(), link.c_str()) == 0)
                          return 1;
                        return ErrorOfOpen(
                            absl::StrCat("/proc/self/root", target), O_RDONLY);
                      }),
            EACCES);
}

TEST_F(LandlockRulesTest, DescriptorsThatAreOpenStayUsable) {
  EXPECT_EQ(InChild([&] {
              const int opened =
                  ::open(Path("other/file").c_str(), O_RDONLY | O_CLOEXEC);
              ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
              if (!RestrictFiles(options_).ok()) return kNoLayer;
              char byte = 0;
              return ::read(opened, &byte, 1) == 1 ? 0 : errno;
            }),
            0);
}

TEST_F(LandlockRulesTest, NamedProgramsStartAndOthersNot) {
  const auto start = [this](const char* program) {
    return WithRules(options_, [program] { return Started(program); });
  };
  options_.readable.insert(options_.readable.end(),
                           {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"});
  EXPECT_EQ(start("/bin/true"), EACCES);
  options_.programs = {"/bin/true", Path("not-there")};
  EXPECT_EQ(start("/bin/true"), 0);
  EXPECT_EQ(start("/bin/false"), EACCES);
  // A folder names no program.
  options_.programs = {"/usr"};
  EXPECT_EQ(start("/bin/false"), EACCES);
}

TEST_F(LandlockRulesTest, FilesThatTheProcessWroteAreNoPrograms) {
  options_.readable.insert(options_.readable.end(),
                           {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"});
  options_.programs = {"/bin/true"};
  const std::string copy = Path("own/copy");
  std::filesystem::copy_file("/bin/true", copy);
  EXPECT_EQ(WithRules(options_, [&] { return Started(copy.c_str()); }), EACCES);
}

TEST_F(LandlockRulesTest, OnlyTheProcessItselfIsSignalled) {
  if (VersionOfLandlock() < 6) GTEST_SKIP() << "Landlock before version 6";
  EXPECT_EQ(WithRules(options_,
                      [] { return ::kill(::getppid(), 0) < 0 ? errno : 0; }),
            EPERM);
  EXPECT_EQ(
      WithRules(options_, [] { return ::kill(::getpid(), 0) < 0 ? errno : 0; }),
      0);
}

TEST_F(LandlockRulesTest, GroupsConnectToEphemeralPortsOnly) {
  if (VersionOfLandlock() < 4) GTEST_SKIP() << "Landlock before version 4";
  uint64_t first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first;
  if (first <= 1024) GTEST_SKIP() << "every port is ephemeral here";
  const auto port = static_cast<uint16_t>(first - 1);
  options_.groups = true;
  EXPECT_EQ(WithRules(options_, [&] { return ErrorOfConnect(port); }), EACCES);
  EXPECT_EQ(WithRules(options_, [] { return ErrorOfConnect(80); }), EACCES);

  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  auto* const plain = reinterpret_cast<sockaddr*>(&address);
  ASSERT_EQ(::bind(listener, plain, size), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  ASSERT_EQ(::getsockname(listener, plain, &size), 0);
  const uint16_t ephemeral = ntohs(address.sin_port);
  EXPECT_EQ(WithRules(options_, [&] { return ErrorOfConnect(ephemeral); }), 0);
  options_.groups = false;
  EXPECT_EQ(WithRules(options_, [&] { return ErrorOfConnect(ephemeral); }),
            EACCES);
  ::close(listener);
}

}  // namespace
}  // namespace gpupool::server
