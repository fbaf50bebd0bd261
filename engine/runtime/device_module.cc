#include "engine/runtime/device_module.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/module_build_id.h"

namespace gpupool::engine {

absl::StatusOr<DeviceModule*> LoadDeviceModule(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat("there is no ", path));
  }
  // RTLD_LOCAL keeps the module's copies of our libraries apart from ours.
  void* library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* reason = ::dlerror();
    return absl::FailedPreconditionError(
        absl::StrCat(path, " cannot be loaded: ",
                     reason == nullptr ? "no reason was given" : reason));
  }
  const auto function =
      reinterpret_cast<ModuleFunction>(::dlsym(library, kModuleSymbol));
  if (function == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no device module of gpupool"));
  }
  // The build id is compared before any virtual function is called: with other
  // headers the tables of functions may differ.
  ModuleEntry entry;
  function(&entry);
  if (entry.build_id == nullptr || entry.module == nullptr ||
      absl::string_view(entry.build_id) != ModuleBuildId()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, " belongs to another build of gpupool; install both together"));
  }
  return entry.module;
}

absl::StatusOr<std::string> FindCudaModule(
    const std::vector<std::string>& folders) {
  for (const std::string& folder : folders) {
    const auto path = std::filesystem::path(folder) / "libgpupool_cuda.so";
    std::error_code error;
    if (std::filesystem::exists(path, error)) return path.string();
  }
  return absl::NotFoundError(
      absl::StrCat("this build of gpupool has no CUDA module: there is no "
                   "libgpupool_cuda.so in ",
                   absl::StrJoin(folders, " or "),
                   "; build it where nvcc is installed, or use cpu:N"));
}

}  // namespace gpupool::engine
