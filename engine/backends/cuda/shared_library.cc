#include "engine/backends/cuda/shared_library.h"

#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpupool::engine::cuda {

absl::StatusOr<SharedLibrary> SharedLibrary::Open(const std::string& name,
                                                  const std::string& folders) {
  constexpr int kFlags = RTLD_LAZY | RTLD_LOCAL;
  std::string broken;  // why the first existing file fails to load
  for (const absl::string_view folder :
       absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    const std::string path = absl::StrCat(folder, "/", name);
    void* handle = ::dlopen(path.c_str(), kFlags);
    if (handle != nullptr) return SharedLibrary(name, handle);
    // A missing file is no reason to report.
    const char* reason = ::dlerror();
    if (broken.empty() && reason != nullptr &&
        ::access(path.c_str(), F_OK) == 0) {
      broken = reason;
    }
  }
  void* handle = ::dlopen(name.c_str(), kFlags);
  if (handle != nullptr) return SharedLibrary(name, handle);
  const char* last = ::dlerror();
  // A file in the folders was probably meant, so its error comes first.
  const std::string reason = !broken.empty()   ? broken
                             : last != nullptr ? last
                                               : "no reason was given";
  return absl::NotFoundError(absl::StrCat(
      name, " cannot be loaded",
      folders.empty() ? "" : absl::StrCat(" from ", folders, " or"),
      " from where the system keeps libraries: ", reason));
}

absl::Status SharedLibrary::Find(
    std::initializer_list<FunctionSlot> functions) const {
  for (const FunctionSlot& function : functions) {
    void* address = ::dlsym(handle_, function.name());
    if (address == nullptr) {
      return absl::FailedPreconditionError(absl::StrCat(
          name_, " has no ", function.name(), "; install a newer one"));
    }
    function.Set(address);
  }
  return absl::OkStatus();
}

std::string SharedLibrary::path() const {
  link_map* map = nullptr;
  if (::dlinfo(handle_, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) {
    return name_;
  }
  return map->l_name;
}

std::string LibraryVersion(int64_t version) {
  return absl::StrCat(version / 10000, ".", version / 100 % 100, ".",
                      version % 100);
}

}  // namespace gpupool::engine::cuda
