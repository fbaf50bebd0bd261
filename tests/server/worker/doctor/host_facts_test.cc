#include "server/worker/doctor/host_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A folder with a test's files instead of /proc, /sys and /dev.
class HostFactsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "/hostXXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
    ::unsetenv("KUBERNETES_SERVICE_HOST");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    const auto whole = root_ / path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }

  HostFacts Read() const { return ReadHostFacts(root_.string()); }

  std::filesystem::path root_;
};

TEST_F(HostFactsTest, AnEmptyMachineHasNothing) {
  const HostFacts facts = Read();
  EXPECT_EQ(facts.container, "");
  EXPECT_FALSE(facts.wsl);
  EXPECT_FALSE(facts.kernel_module);
  EXPECT_EQ(facts.pci_gpus, 0u);
  EXPECT_THAT(facts.gpu_files, IsEmpty());
  EXPECT_EQ(facts.cgroup_memory_bytes, kNoLimit);
  EXPECT_EQ(facts.cgroup_cores, 0);
  EXPECT_EQ(facts.cgroup_processes, kNoLimit);
  EXPECT_EQ(facts.shm_bytes, 0u);
  EXPECT_FALSE(facts.strict_overcommit);
}

TEST_F(HostFactsTest, TheKernelModuleTellsItsVersion) {
  Write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  "
        "Release Build  (dvs-builder@U22)\nGCC version:  gcc version 12.2.0\n");
  const HostFacts facts = Read();
  EXPECT_TRUE(facts.kernel_module);
  EXPECT_EQ(facts.kernel_module_version, "580.65.06");
}

TEST_F(HostFactsTest, OnlyNvidiasDisplayAnd3dControllersAreGpus) {
  const auto device = [&](const std::string& at, const std::string& vendor,
                          const std::string& kind) {
    Write("sys/bus/pci/devices/" + at + "/vendor", vendor + "\n");
    Write("sys/bus/pci/devices/" + at + "/class", kind + "\n");
  };
  device("0000:01:00.0", "0x10de", "0x030200");
  device("0000:02:00.0", "0x10de", "0x030000");
  device("0000:02:00.1", "0x10de", "0x040300");  // the GPU's sound device
  device("0000:03:00.0", "0x1002", "0x030000");
  EXPECT_EQ(Read().pci_gpus, 2u);
}

TEST_F(HostFactsTest, DeviceFilesAreToldApart) {
  for (const char* name : {"nvidia0", "nvidia10", "nvidiactl", "nvidia-uvm",
                           "nvidia-modeset", "null"}) {
    Write(std::string("dev/") + name, "");
  }
  const HostFacts facts = Read();
  EXPECT_THAT(facts.gpu_files, ElementsAre("/dev/nvidia0", "/dev/nvidia10"));
  EXPECT_TRUE(facts.control_file);
  EXPECT_TRUE(facts.memory_file);
  EXPECT_THAT(facts.locked_files, IsEmpty());
}

TEST_F(HostFactsTest, DeviceFilesThatCannotBeUsedAreNamed) {
  // Not even root can open a broken link.
  Write("dev/nvidiactl", "");
  std::filesystem::create_symlink("nowhere", root_ / "dev/nvidia0");
  const HostFacts facts = Read();
  EXPECT_THAT(facts.gpu_files, ElementsAre("/dev/nvidia0"));
  EXPECT_THAT(facts.locked_files, ElementsAre("/dev/nvidia0"));
}

TEST_F(HostFactsTest, ContainersLeaveTheirMarks) {
  Write("proc/1/environ", std::string("PATH=/bin\0container=lxc\0", 23));
  EXPECT_EQ(Read().container, "container");
  Write("run/.containerenv", "");
  EXPECT_EQ(Read().container, "podman");
  Write(".dockerenv", "");
  EXPECT_EQ(Read().container, "docker");
  ::setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1", 1);
  EXPECT_EQ(Read().container, "kubernetes");
}

TEST_F(HostFactsTest, WslHasAKernelOfMicrosofts) {
  Write("proc/sys/kernel/osrelease", "5.15.153.1-microsoft-standard-WSL2\n");
  Write("dev/dxg", "");
  EXPECT_TRUE(Read().wsl);
  EXPECT_TRUE(Read().wsl_file);
}

TEST_F(HostFactsTest, GroupsLimitWhatIsBelowThem) {
  Write("proc/self/cgroup", "1:name=systemd:/x\n0::/machine/job\n");
  Write("sys/fs/cgroup/machine/memory.max", "1073741824\n");
  Write("sys/fs/cgroup/machine/job/memory.max", "max\n");
  Write("sys/fs/cgroup/machine/job/cpu.max", "250000 100000\n");
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/pids.max", "200\n");
  const HostFacts facts = Read();
  EXPECT_EQ(facts.cgroup_memory_bytes, uint64_t{1} << 30);
  EXPECT_EQ(facts.cgroup_cores, 2.5);
  EXPECT_EQ(facts.cgroup_processes, 200u);
}

TEST_F(HostFactsTest, OlderGroupsLimitToo) {
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  const HostFacts facts = Read();
  EXPECT_EQ(facts.cgroup_memory_bytes, uint64_t{512} << 20);
  EXPECT_EQ(facts.cgroup_cores, 0);
}

TEST_F(HostFactsTest, MemoryIsThatOfTheMachine) {
  Write("proc/meminfo", "MemTotal:       65536 kB\nMemFree:   100 kB\n");
  Write("proc/sys/vm/overcommit_memory", "2\n");
  std::filesystem::create_directories(root_ / "dev/shm");
  const HostFacts facts = Read();
  EXPECT_EQ(facts.memory_bytes, uint64_t{64} << 20);
  EXPECT_TRUE(facts.strict_overcommit);
  EXPECT_GT(facts.shm_bytes, 0u);
}

TEST_F(HostFactsTest, TheProcessHasItsOwnLimits) {
  rlimit before = {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit lower = {200, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &lower), 0);
  const HostFacts facts = Read();
  ::setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(facts.open_files, 200u);
  EXPECT_GE(facts.cores, 1u);
  EXPECT_THAT(facts.blocked_calls, IsEmpty());
}

TEST_F(HostFactsTest, VariablesThatAreSetAreTold) {
  ::setenv("CUDA_VISIBLE_DEVICES", "", 1);
  ::unsetenv("NVIDIA_VISIBLE_DEVICES");
  const HostFacts facts = Read();
  ::unsetenv("CUDA_VISIBLE_DEVICES");
  EXPECT_EQ(facts.environment.at("CUDA_VISIBLE_DEVICES"), "");
  EXPECT_EQ(facts.environment.count("NVIDIA_VISIBLE_DEVICES"), 0u);
}

}  // namespace
}  // namespace gpupool::server
