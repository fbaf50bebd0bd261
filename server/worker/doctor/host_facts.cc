#include "server/worker/doctor/host_facts.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {
namespace {

namespace fs = std::filesystem;

constexpr const char* kVariables[] = {"CUDA_VISIBLE_DEVICES",
                                      "NVIDIA_VISIBLE_DEVICES",
                                      "NVIDIA_DRIVER_CAPABILITIES"};

// Returns the first 64 KiB; empty when the file cannot be read.
std::string ReadText(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(64 << 10, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(0, file.gcount())));
  return std::string(absl::StripAsciiWhitespace(text));
}

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Returns the names in order, including dangling links.
std::vector<std::string> Names(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string ContainerKind(const fs::path& root) {
  if (std::getenv("KUBERNETES_SERVICE_HOST") != nullptr) return "kubernetes";
  if (Exists(root / ".dockerenv")) return "docker";
  if (Exists(root / "run/.containerenv")) return "podman";
  const std::string first = ReadText(root / "proc/1/environ");
  return absl::StartsWith(first, "container=") ||
                 absl::StrContains(first, absl::string_view("\0container=", 11))
             ? "container"
             : "";
}

// Returns "580.65.06" from a line such as "NVRM version: NVIDIA UNIX Open
// Kernel Module for x86_64  580.65.06  ...".
std::string VersionIn(const std::string& text) {
  for (absl::string_view word :
       absl::StrSplit(text, absl::ByAnyChar(" \t\n"), absl::SkipEmpty())) {
    const bool number = std::all_of(word.begin(), word.end(), [](char c) {
      return absl::ascii_isdigit(c) || c == '.';
    });
    if (number && absl::StrContains(word, '.')) return std::string(word);
  }
  return "";
}

uint32_t CountPciGpus(const fs::path& root) {
  const fs::path bus = root / "sys/bus/pci/devices";
  uint32_t count = 0;
  for (const std::string& name : Names(bus)) {
    const std::string kind = ReadText(bus / name / "class");
    // Display controllers, and 3D controllers without a display.
    const bool gpu =
        absl::StartsWith(kind, "0x0300") || absl::StartsWith(kind, "0x0302");
    if (gpu && ReadText(bus / name / "vendor") == "0x10de") ++count;
  }
  return count;
}

void ReadDriver(const fs::path& root, HostFacts& facts) {
  const fs::path version = root / "proc/driver/nvidia/version";
  facts.kernel_module = Exists(version) || Exists(root / "sys/module/nvidia");
  facts.kernel_module_version = VersionIn(ReadText(version));
  facts.pci_gpus = CountPciGpus(root);
  for (const std::string& name : Names(root / "dev")) {
    absl::string_view rest = name;
    uint32_t number = 0;
    if (!absl::ConsumePrefix(&rest, "nvidia")) continue;
    const bool gpu = absl::SimpleAtoi(rest, &number);
    const std::string shown = absl::StrCat("/dev/", name);
    if (gpu) facts.gpu_files.push_back(shown);
    facts.control_file |= rest == "ctl";
    facts.memory_file |= rest == "-uvm";
    const bool needed = gpu || rest == "ctl" || rest == "-uvm";
    if (needed && ::access((root / "dev" / name).c_str(), R_OK | W_OK) != 0) {
      facts.locked_files.push_back(shown);
    }
  }
  facts.wsl_file = Exists(root / "dev/dxg");
  facts.wsl = absl::StrContains(
      absl::AsciiStrToLower(ReadText(root / "proc/sys/kernel/osrelease")),
      "microsoft");
}

// Returns the limit; "max" is no limit.
uint64_t LimitIn(const std::string& text) {
  uint64_t limit = 0;
  return absl::SimpleAtoi(text, &limit) ? limit : kNoLimit;
}

// Parses "200000 100000", quota and period in microseconds. 0: no quota.
double CoresIn(const std::string& text) {
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  double quota = 0;
  double period = 0;
  return words.size() == 2 && absl::SimpleAtod(words[0], &quota) &&
                 absl::SimpleAtod(words[1], &period) && period > 0
             ? quota / period
             : 0;
}

void LowerCores(double cores, HostFacts& facts) {
  if (cores <= 0) return;
  facts.cgroup_cores =
      facts.cgroup_cores == 0 ? cores : std::min(facts.cgroup_cores, cores);
}

// Reads the limits of a group of the unified hierarchy and of its parents.
void ReadUnified(const fs::path& mount, absl::string_view group,
                 HostFacts& facts) {
  fs::path at =
      (mount / std::string(absl::StripPrefix(group, "/"))).lexically_normal();
  while (true) {
    facts.cgroup_memory_bytes = std::min(facts.cgroup_memory_bytes,
                                         LimitIn(ReadText(at / "memory.max")));
    facts.cgroup_processes =
        std::min(facts.cgroup_processes, LimitIn(ReadText(at / "pids.max")));
    LowerCores(CoresIn(ReadText(at / "cpu.max")), facts);
    if (at.string().size() <= mount.string().size()) return;
    at = at.parent_path();
  }
}

// Reads the older hierarchies as a container sees them, mounted at its own
// group.
void ReadOlder(const fs::path& mount, HostFacts& facts) {
  facts.cgroup_memory_bytes =
      std::min(facts.cgroup_memory_bytes,
               LimitIn(ReadText(mount / "memory/memory.limit_in_bytes")));
  facts.cgroup_processes = std::min(facts.cgroup_processes,
                                    LimitIn(ReadText(mount / "pids/pids.max")));
  LowerCores(CoresIn(absl::StrCat(ReadText(mount / "cpu/cpu.cfs_quota_us"), " ",
                                  ReadText(mount / "cpu/cpu.cfs_period_us"))),
             facts);
}

void ReadGroups(const fs::path& root, HostFacts& facts) {
  const fs::path mount = root / "sys/fs/cgroup";
  std::string group;
  const std::string own = ReadText(root / "proc/self/cgroup");
  for (absl::string_view line : absl::StrSplit(own, '\n')) {
    if (absl::ConsumePrefix(&line, "0::")) group = std::string(line);
  }
  ReadUnified(mount, group, facts);
  ReadOlder(mount, facts);
}

uint64_t ReadLimit(int resource) {
  rlimit limit = {};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return kNoLimit;
  }
  return limit.rlim_cur;
}

void ReadMemory(const fs::path& root, HostFacts& facts) {
  std::istringstream lines(ReadText(root / "proc/meminfo"));
  std::string key;
  uint64_t kibibytes = 0;
  if (lines >> key >> kibibytes && key == "MemTotal:") {
    facts.memory_bytes = kibibytes << 10;
  }
  facts.strict_overcommit =
      ReadText(root / "proc/sys/vm/overcommit_memory") == "2";
  struct statvfs shm = {};
  if (::statvfs((root / "dev/shm").c_str(), &shm) == 0) {
    facts.shm_bytes = uint64_t{shm.f_blocks} * shm.f_frsize;
  }
}

void ReadProcess(HostFacts& facts) {
  facts.locked_bytes = ReadLimit(RLIMIT_MEMLOCK);
  facts.open_files = ReadLimit(RLIMIT_NOFILE);
  facts.address_bytes = ReadLimit(RLIMIT_AS);
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    facts.cores = static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
  }
  const UniqueFd memory(::memfd_create("doctor", MFD_CLOEXEC));
  if (!memory.valid()) facts.blocked_calls.emplace_back("memfd_create");
  const UniqueFd self(
      static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  if (!self.valid()) facts.blocked_calls.emplace_back("pidfd_open");
  open_how how = {};
  how.flags = O_PATH | O_CLOEXEC;
  const UniqueFd folder(static_cast<int>(
      ::syscall(SYS_openat2, AT_FDCWD, ".", &how, sizeof(how))));
  if (!folder.valid()) facts.blocked_calls.emplace_back("openat2");
  // The version of Landlock, of which workers need the second one. The headers
  // of Debian 12 name neither the call nor the question.
  constexpr long kLandlock = 444;
  constexpr unsigned kAskVersion = 1;
  if (::syscall(kLandlock, nullptr, 0, kAskVersion) < 2) {
    facts.missing_layers.emplace_back("Landlock");
  }
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
    facts.missing_layers.emplace_back("seccomp");
  }
}

}  // namespace

HostFacts ReadHostFacts(const std::string& root) {
  HostFacts facts;
  facts.container = ContainerKind(root);
  ReadDriver(root, facts);
  ReadGroups(root, facts);
  ReadMemory(root, facts);
  ReadProcess(facts);
  for (const char* name : kVariables) {
    const char* const value = std::getenv(name);
    if (value != nullptr) facts.environment[name] = value;
  }
  return facts;
}

}  // namespace gpupool::server
