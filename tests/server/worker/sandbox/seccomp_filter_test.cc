#include "server/worker/sandbox/seccomp_filter.h"

#include <arpa/inet.h>
#include <linux/netlink.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/worker/sandbox/child.h"

namespace gpupool::server {
namespace {

// Runs `attempt` in a child for which only the filter holds.
int Filtered(const SandboxOptions& options,
             const std::function<int()>& attempt) {
  return InChild([&] {
    ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    return RestrictCalls(options).ok() ? attempt() : kNoLayer;
  });
}

int ErrorOf(long result) { return result < 0 ? errno : 0; }

// Both kinds of filters: that of CPU workers, and that of the workers of GPUs.
class SeccompFilterTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    options_.gpu = GetParam();
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers make calls of their own";
#endif
    if (Filtered(options_, [] { return 0; }) == kNoLayer) {
      GTEST_SKIP() << "no seccomp";
    }
  }
  int Try(const std::function<int()>& attempt) {
    return Filtered(options_, attempt);
  }
  SandboxOptions options_;
};

TEST_P(SeccompFilterTest, NoProcessAndNoProgramStarts) {
  EXPECT_EQ(Try([] { return ErrorOf(::fork()); }), EPERM);
  EXPECT_EQ(Try([] {
              const char* const arguments[] = {"/bin/true", nullptr};
              ::execv(arguments[0], const_cast<char* const*>(arguments));
              return errno;
            }),
            EPERM);
  EXPECT_EQ(Try([] { return Started("/bin/true"); }), EPERM);
}

TEST_P(SeccompFilterTest, ProgramsStartByPosixSpawnAlone) {
  options_.programs = {"/bin/true"};
  EXPECT_EQ(Try([] { return Started("/bin/true"); }), 0);
  EXPECT_EQ(Try([] { return Started("/bin/false"); }), 1);
  EXPECT_EQ(Try([] { return ErrorOf(::fork()); }), EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::vfork()); }), EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::syscall(SYS_clone3, nullptr, 0)); }),
            ENOSYS);
  EXPECT_EQ(Try([] {
              return ErrorOf(::syscall(SYS_execveat, -1, "/bin/true", nullptr,
                                       nullptr, 0));
            }),
            EPERM);
  EXPECT_EQ(Try([] {
              int sum = 0;
              std::thread([&sum] { ++sum; }).join();
              return sum - 1;
            }),
            0);
}

TEST_P(SeccompFilterTest, OtherFlagsOfProcessesAreRefused) {
  options_.programs = {"/bin/true"};
  const uint64_t spawn = CLONE_VM | CLONE_VFORK | SIGCHLD;
  for (uint64_t bit = 1; bit < uint64_t{1} << 32; bit <<= 1) {
    if (bit == CLONE_THREAD) continue;
    EXPECT_EQ(Try([flags = spawn ^ bit] {
                const long made = ::syscall(SYS_clone, flags, 0, 0, 0, 0);
                if (made == 0) ::_exit(0);
                return ErrorOf(made);
              }),
              EPERM)
        << bit;
  }
}

TEST_P(SeccompFilterTest, WhatIsStartedIsHeldByTheSameFilter) {
  options_.programs = {"/bin/sh"};
  // The shell forks for a program of its own.
  EXPECT_NE(
      Try([] {
        const char* const arguments[] = {"/bin/sh", "-c", "/bin/true; exit 0",
                                         nullptr};
        pid_t pid = 0;
        if (::posix_spawn(&pid, arguments[0], nullptr, nullptr,
                          const_cast<char* const*>(arguments), nullptr) != 0) {
          return 0;
        }
        int status = 0;
        ::waitpid(pid, &status, 0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : kKilled;
      }),
      0);
}

TEST_P(SeccompFilterTest, OtherProcessesAreOutOfReach) {
  EXPECT_EQ(
      Try([] {
        return ErrorOf(::ptrace(PTRACE_ATTACH, ::getppid(), nullptr, nullptr));
      }),
      EPERM);
  EXPECT_EQ(
      Try([] {
        char byte = 0;
        iovec here = {&byte, 1};
        iovec there = {&byte, 1};
        return ErrorOf(::process_vm_readv(::getppid(), &here, 1, &there, 1, 0));
      }),
      EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::kill(::getppid(), SIGCONT)); }), EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::kill(-1, 0)); }), EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::kill(0, 0)); }), EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::kill(::getpid(), 0)); }), 0);
}

TEST_P(SeccompFilterTest, NothingConnects) {
  EXPECT_EQ(Try([] { return ErrorOf(::socket(AF_INET, SOCK_STREAM, 0)); }),
            EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::socket(AF_INET6, SOCK_DGRAM, 0)); }),
            EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::socket(AF_NETLINK, SOCK_RAW, 0)); }),
            EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::socket(AF_PACKET, SOCK_RAW, 0)); }),
            EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::syscall(SYS_socket, 1000, 1, 0)); }),
            EPERM);
  // The upper half of an argument is not read by the kernel.
  EXPECT_EQ(Try([] {
              return ErrorOf(
                  ::syscall(SYS_socket, (1L << 32) | AF_INET, SOCK_STREAM, 0));
            }),
            EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::socket(AF_UNIX, SOCK_DGRAM, 0)); }),
            EPERM);
  EXPECT_EQ(Try([] {
              const int made = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
              if (made < 0) return 1000;
              sockaddr_un address = {};
              address.sun_family = AF_UNIX;
              std::snprintf(address.sun_path, sizeof(address.sun_path),
                            "/run/docker.sock");
              return ErrorOf(
                  ::connect(made, reinterpret_cast<const sockaddr*>(&address),
                            sizeof(address)));
            }),
            EPERM);
}

TEST_P(SeccompFilterTest, WorkersOfGroupsHaveTcpAndSeeInterfaces) {
  options_.groups = true;
  EXPECT_EQ(Try([] {
              const int made =
                  ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
              if (made < 0) return errno;
              sockaddr_in address = {};
              address.sin_family = AF_INET;
              address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
              // Sending may not connect.
              char byte = 0;
              if (::sendto(made, &byte, 1, MSG_FASTOPEN,
                           reinterpret_cast<const sockaddr*>(&address),
                           sizeof(address)) >= 0 ||
                  errno != EPERM) {
                return 200;
              }
              ::connect(made, reinterpret_cast<const sockaddr*>(&address),
                        sizeof(address));
              return errno == EPERM ? EPERM : 0;
            }),
            0);
  EXPECT_EQ(Try([] { return ErrorOf(::socket(AF_INET, SOCK_DGRAM, 0)); }),
            EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::socket(AF_INET, SOCK_RAW, 6)); }), EPERM);
  EXPECT_EQ(Try([] {
              return ErrorOf(::socket(AF_NETLINK, SOCK_RAW, NETLINK_ROUTE));
            }),
            0);
  EXPECT_EQ(Try([] {
              return ErrorOf(::socket(AF_NETLINK, SOCK_RAW, NETLINK_AUDIT));
            }),
            EPERM);
}

TEST_P(SeccompFilterTest, TheSystemCannotBeChanged) {
  EXPECT_EQ(
      Try([] { return ErrorOf(::mount("none", "/mnt", "tmpfs", 0, nullptr)); }),
      EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::unshare(CLONE_NEWUSER)); }), EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::chroot("/tmp")); }), EPERM);
  EXPECT_EQ(Try([] { return ErrorOf(::setuid(1)); }), EPERM);
  for (const long call :
       {SYS_bpf, SYS_perf_event_open, SYS_keyctl, SYS_io_uring_setup,
        SYS_userfaultfd, SYS_init_module, SYS_kexec_load, SYS_setns}) {
    EXPECT_EQ(Try([call] { return ErrorOf(::syscall(call, 0, 0, 0, 0, 0)); }),
              EPERM)
        << call;
  }
}

TEST_P(SeccompFilterTest, WorkGoesOn) {
  EXPECT_EQ(Try([] {
              // Code that is made at run time, as oneDNN makes it.
              void* const page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
              if (page == MAP_FAILED) return 1;
              if (::mprotect(page, 4096, PROT_READ | PROT_EXEC) != 0) return 2;
              std::atomic<int> sum = 0;
              std::vector<std::thread> threads;
              for (int i = 0; i < 4; ++i) {
                threads.emplace_back([&sum, i] { sum += i; });
              }
              for (std::thread& thread : threads) thread.join();
              if (sum != 6) return 3;
              const int memory =
                  ::memfd_create("ring", MFD_CLOEXEC | MFD_ALLOW_SEALING);
              if (memory < 0 || ::ftruncate(memory, 4096) != 0) return 4;
              rlimit limit = {};
              return ::getrlimit(RLIMIT_NOFILE, &limit) == 0 ? 0 : 5;
            }),
            0);
}

TEST_P(SeccompFilterTest, UnknownCallsFailAsOnAnOlderKernel) {
  EXPECT_EQ(Try([] { return ErrorOf(::syscall(SYS_clone3, nullptr, 0)); }),
            ENOSYS);
  if (options_.gpu) return;
  EXPECT_EQ(Try([] { return ErrorOf(::syscall(SYS_sync)); }), ENOSYS);
}

INSTANTIATE_TEST_SUITE_P(Workers, SeccompFilterTest, ::testing::Bool(),
                         [](const auto& kind) {
                           return kind.param ? "WithGpu" : "WithoutGpu";
                         });

}  // namespace
}  // namespace gpupool::server
