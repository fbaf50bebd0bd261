#include "server/worker/sandbox/worker_view.h"

#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "server/ipc/worker_paths.h"

namespace gpupool::server {
namespace {

// Libraries, the files by which the C library finds them and names, and facts
// of the machine. Nothing here is secret: every user of the machine may read
// it.
constexpr const char* kReadable[] = {
    "/usr",
    "/lib",
    "/lib32",
    "/lib64",
    "/etc/ld.so.cache",
    "/etc/ld.so.preload",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/protocols",
    "/etc/services",
    "/etc/passwd",
    "/etc/group",
    "/etc/ssl/openssl.cnf",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys",
    "/sys",
};
constexpr const char* kReadableForGpus[] = {
    "/opt",
    "/etc/nccl.conf",
    "/etc/nvidia",
    "/proc/driver",
    "/proc/devices",
    "/proc/modules",
    "/run/nvidia",
    "/run/udev",
    "/proc/iomem",
    "/proc/cgroups",
    "/var/run/nvidia-persistenced",
};
constexpr const char* kDevices[] = {"/dev/null", "/dev/zero", "/dev/full",
                                    "/dev/random", "/dev/urandom"};
// Where NCCL shares buffers, and the pipes of NVIDIA's service that lets
// several processes share a GPU.
constexpr const char* kWritableForGpus[] = {"/dev/shm", "/tmp/nvidia-mps"};

// Adds the folders of a list that is separated by colons.
void AddFolders(const char* list, std::vector<std::string>* folders) {
  if (list == nullptr) return;
  for (absl::string_view folder :
       absl::StrSplit(list, ':', absl::SkipEmpty())) {
    folders->emplace_back(folder);
  }
}

std::string ParentOf(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent;
}

// Returns the folder of this program; empty if it is unknown.
std::filesystem::path OwnFolder() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path();
}

// Adds the folder of this program and the folder lib beside it. In one of them
// is the module for GPUs (engine/cuda_devices.cc).
void AddOwnFolders(std::vector<std::string>* folders) {
  const std::filesystem::path folder = OwnFolder();
  // Everything would be below the root.
  if (folder == folder.root_path()) return;
  folders->push_back(folder);
  folders->push_back((folder / "../lib").lexically_normal());
}

// Returns the programs that workers start: the one that reads tokenizers of
// data sets (engine/data/tokens).
std::vector<std::string> ProgramsOfWorkers() {
  const std::filesystem::path folder = OwnFolder();
  if (folder.empty()) return {};
  return {folder / "gpupool-tokenizer"};
}

// Adds the device files of NVIDIA, the folder with those of parts of GPUs, and
// the file of Windows' driver (WSL).
void AddGpuFiles(std::vector<std::string>* devices) {
  devices->emplace_back("/dev/dxg");
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", error)) {
    const std::string name = entry.path().filename();
    if (absl::StartsWith(name, "nvidia")) devices->push_back(entry.path());
  }
}

// Adds the folder in which the driver keeps compiled kernels, which it must be
// able to make.
void AddDriverCache(std::vector<std::string>* folders) {
  const char* const chosen = std::getenv("CUDA_CACHE_PATH");
  const char* const home = std::getenv("HOME");
  std::string folder;
  if (chosen != nullptr) {
    folder = chosen;
  } else if (home != nullptr) {
    folder = absl::StrCat(home, "/.nv");
  }
  if (folder.empty()) return;
  std::error_code error;  // without the folder, kernels are compiled each time
  std::filesystem::create_directories(folder, error);
  folders->push_back(folder);
}

}  // namespace

SandboxOptions SandboxOptionsFor(const WorkerPlaces& places) {
  SandboxOptions options;
  options.gpu = absl::StartsWith(places.device, "cuda:");
  options.groups = places.groups;
  options.readable.assign(std::begin(kReadable), std::end(kReadable));
  options.devices.assign(std::begin(kDevices), std::end(kDevices));
  options.writable = {places.folder, places.blobs};
  if (places.groups) {
    options.writable.push_back(absl::StrCat(places.state_dir, "/groups"));
  }
  if (!places.planned_folder.empty()) {
    options.readable.push_back(places.planned_folder);
  }
  AddOwnFolders(&options.readable);
  // Rehearsals have random rows in place of data sets.
  if (places.device != kRehearsalWorker) options.programs = ProgramsOfWorkers();
  AddFolders(std::getenv("LD_LIBRARY_PATH"), &options.readable);
  AddFolders(places.library_folders.c_str(), &options.readable);
  if (const char* const fault = std::getenv("GPUPOOL_INJECT_FAULT_FILE")) {
    options.writable.push_back(ParentOf(fault));
  }
  if (options.gpu) {
    options.readable.insert(options.readable.end(),
                            std::begin(kReadableForGpus),
                            std::end(kReadableForGpus));
    options.writable.insert(options.writable.end(),
                            std::begin(kWritableForGpus),
                            std::end(kWritableForGpus));
    AddGpuFiles(&options.devices);
    AddDriverCache(&options.writable);
  }
  return options;
}

}  // namespace gpupool::server
