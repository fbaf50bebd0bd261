#include "server/worker/sandbox/sandbox.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "tests/server/worker/sandbox/child.h"

namespace gpupool::server {
namespace {

class SandboxTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (InSandbox({}, [] { return kWorked; }) == kNoLayer) {
      GTEST_SKIP() << "this kernel or this build has not every layer";
    }
  }
};

TEST_F(SandboxTest, AllLayersAreReported) {
  EXPECT_EQ(
      InChild([] {
        const SandboxReport report = InstallSandbox({});
        const std::vector<std::string> all = {"privileges", "files", "calls"};
        return report.layers == all && report.missing.empty() ? 0 : 1;
      }),
      kWorked);
}

TEST_F(SandboxTest, TheProcessSaysThatItIsShutIn) {
  const SandboxOptions options = {.readable = {"/proc/self"}};
  EXPECT_EQ(InSandbox(options,
                      [] {
                        std::ifstream status("/proc/self/status");
                        std::string line;
                        int found = 0;
                        while (std::getline(status, line)) {
                          found += line == "NoNewPrivs:\t1" ? 1 : 0;
                          found += line == "Seccomp:\t2" ? 1 : 0;
                        }
                        return found == 2 ? 0 : 1;
                      }),
            kWorked);
  EXPECT_EQ(InSandbox(options, [] { return ::prctl(PR_GET_DUMPABLE); }), 0);
}

TEST_F(SandboxTest, RootKeepsNoCapabilityButThatForFiles) {
  EXPECT_EQ(
      InSandbox(
          {},
          [] {
            __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
            __user_cap_data_struct held[2] = {};
            if (::syscall(SYS_capget, &header, held) != 0) return 1;
            const uint32_t kept = uint32_t{1} << CAP_DAC_OVERRIDE;
            const bool few =
                (held[0].permitted & ~kept) == 0 && held[1].permitted == 0;
            return few ? 0 : 2;
          }),
      kWorked);
}

TEST_F(SandboxTest, TheLayersHoldForThreadsThatStartLater) {
  EXPECT_EQ(InSandbox({},
                      [] {
                        int error = 0;
                        std::thread([&] {
                          error =
                              ::open("/etc/passwd", O_RDONLY) < 0 ? errno : 0;
                        }).join();
                        return error;
                      }),
            EACCES);
}

TEST_F(SandboxTest, CrashesEndTheProcessAsBefore) {
  for (const int signal : {SIGSEGV, SIGABRT, SIGFPE}) {
    EXPECT_EQ(InSandbox({},
                        [signal] {
                          const rlimit none = {0, 0};
                          ::setrlimit(RLIMIT_CORE, &none);
                          ::signal(signal, SIG_DFL);
                          return ::raise(signal);
                        }),
              kKilled)
        << signal;
  }
}

TEST_F(SandboxTest, UnixSocketsEndWhenTheWorkerListens) {
  EXPECT_EQ(InSandbox({},
                      [] {
                        if (::socket(AF_UNIX, SOCK_STREAM, 0) < 0) return 1;
                        if (!ForbidUnixSockets({}).ok()) return 2;
                        return ::socket(AF_UNIX, SOCK_STREAM, 0) < 0 ? errno
                                                                     : 0;
                      }),
            EPERM);
}

TEST_F(SandboxTest, TheNamedProgramStartsAndNothingElse) {
  for (const bool gpu : {false, true}) {
    const SandboxOptions options = {
        .gpu = gpu,
        .readable = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache"},
        .programs = {"/bin/true"}};
    EXPECT_EQ(InSandbox(options, [] { return Started("/bin/true"); }), 0);
    EXPECT_EQ(InSandbox(options, [] { return Started("/bin/false"); }), EACCES);
    EXPECT_EQ(InSandbox(options, [] { return ::fork() < 0 ? errno : 0; }),
              EPERM);
    // Also when the worker listens.
    EXPECT_EQ(InSandbox(options,
                        [&options] {
                          return ForbidUnixSockets(options).ok()
                                     ? Started("/bin/true")
                                     : 1;
                        }),
              0);
  }
  EXPECT_EQ(InSandbox({}, [] { return Started("/bin/true"); }), EPERM);
}

// Makes a kernel without Landlock of this one, for this process. Returns
// whether that worked.
bool HideLandlock() {
  constexpr uint32_t kCreateRuleset = 444;
  std::array<sock_filter, 4> steps = {{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, kCreateRuleset, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog filter = {steps.size(), steps.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

TEST_F(SandboxTest, WithoutLandlockNoProgramStarts) {
  for (const bool gpu : {false, true}) {
    EXPECT_EQ(InChild([gpu] {
                if (!HideLandlock()) return 200;
                const SandboxReport report =
                    InstallSandbox({.gpu = gpu, .programs = {"/bin/true"}});
                const std::vector<std::string> rest = {"privileges", "calls"};
                return report.layers == rest ? Started("/bin/true") : 201;
              }),
              EPERM);
  }
}

TEST_F(SandboxTest, AProgramGainsNoPrivilege) {
  const SandboxOptions options = {
      .readable = {"/usr", "/lib", "/lib64", "/etc/ld.so.cache", "/proc"},
      .programs = {"/usr/bin/grep"}};
  // Only the capability for files may be left, which is bit 1.
  EXPECT_EQ(InSandbox(options,
                      [] {
                        const char* const arguments[] = {
                            "/usr/bin/grep", "-Eq",
                            "^CapPrm:.*000000000000000[02]$",
                            "/proc/self/status", nullptr};
                        pid_t pid = 0;
                        const int error = ::posix_spawn(
                            &pid, arguments[0], nullptr, nullptr,
                            const_cast<char* const*>(arguments), nullptr);
                        if (error != 0) return error;
                        int status = 0;
                        ::waitpid(pid, &status, 0);
                        return status == 0 ? 0 : 1;
                      }),
            0);
}

TEST_F(SandboxTest, TheWorkerOfAGpuHasTheLayersToo) {
  const SandboxOptions gpu = {.gpu = true, .readable = {"/proc/self"}};
  EXPECT_EQ(InSandbox(gpu, [] { return ::fork() < 0 ? errno : 0; }), EPERM);
  EXPECT_EQ(
      InSandbox(gpu,
                [] { return ::open("/etc/passwd", O_RDONLY) < 0 ? errno : 0; }),
      EACCES);
  // It may make calls that no list names.
  EXPECT_EQ(InSandbox(gpu, [] { return ::syscall(SYS_sync) < 0 ? errno : 0; }),
            kWorked);
}

}  // namespace
}  // namespace gpupool::server
