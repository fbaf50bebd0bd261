// Real faults of a GPU, each in its own process: the status that they give, and
// that the next process finds a healthy device.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "engine/backends/cuda/driver/fault_class.h"
#include "tests/gpu/fault_kernels.h"
#include "tests/gpu/gpu.h"
#include "tests/wait_until.h"

namespace gpupool::engine::testing {
namespace {

using cuda::FaultClass;

constexpr int kNoGpu = 77;
constexpr int kWrong = 78;

// In the child: makes the fault and ends with its class as the exit code.
[[noreturn]] void Fail(int (*launch)()) {
  const auto gpu = Gpu::Get();
  if (!gpu.ok()) std::_Exit(kNoGpu);
  if (!(*gpu)->device().MakeCurrent().ok()) std::_Exit(kWrong);
  if (launch() != 0) std::_Exit(kWrong);
  // A fault is reported to the next caller that waits, on any stream.
  absl::Status status;
  WaitUntil([&] {
    auto block = (*gpu)->allocator().Allocate(4096, {"test", "fault"});
    status = block.status();
    if (status.ok()) status = (*gpu)->transfer().Clear(block->data(), 4096);
    if (status.ok()) status = (*gpu)->transfer().Synchronize();
    return !status.ok();
  });
  std::cerr << "fault: " << status << std::endl;
  // The context is lost: nothing may be destroyed.
  std::_Exit(static_cast<int>(cuda::FaultOf(status)));
}

// Asks in a child, so that this process has no context that could be lost.
bool GpuIsThere() {
  const pid_t child = ::fork();
  if (child == 0) std::_Exit(Gpu::Get().ok() ? 0 : kNoGpu);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

class GpuFault : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!GpuIsThere()) GTEST_SKIP() << "no GPU";
  }
  void ExpectSticky(int (*launch)()) {
    const pid_t child = ::fork();
    if (child == 0) Fail(launch);
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status)) << status;
    EXPECT_EQ(WEXITSTATUS(status), static_cast<int>(FaultClass::kSticky));
    EXPECT_TRUE(GpuIsThere()) << "the next process finds no device";
  }
};

TEST_F(GpuFault, AnIllegalAddressIsSticky) {
  ExpectSticky(&LaunchIllegalAddress);
}

TEST_F(GpuFault, AFailedAssertionIsSticky) { ExpectSticky(&LaunchAssert); }

TEST_F(GpuFault, AProcessWithAnEndlessKernelCanBeKilled) {
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const auto gpu = Gpu::Get();
    char ready = gpu.ok() && LaunchEndless() == 0 ? 'y' : 'n';
    if (::write(pipe[1], &ready, 1) != 1) std::_Exit(kWrong);
    for (;;) ::pause();
  }
  char ready = 'n';
  EXPECT_EQ(::read(pipe[0], &ready, 1), 1);
  EXPECT_EQ(ready, 'y');
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  ::close(pipe[0]);
  ::close(pipe[1]);
  EXPECT_TRUE(GpuIsThere()) << "the next process finds no device";
}

}  // namespace
}  // namespace gpupool::engine::testing
