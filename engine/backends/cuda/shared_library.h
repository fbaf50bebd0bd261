// A vendor's shared library, found at run time: the module starts on machines
// that lack one, or that keep it in a folder of its own.
//
// Immutable; safe from any thread. Libraries stay loaded for ever: theirs do
// not like to be unloaded.
#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

class SharedLibrary {
 public:
  // `name` as in "libcublasLt.so.13"; looked for in each of `folders`, which
  // are separated by colons, and then where the dynamic linker looks.
  // NOT_FOUND names both.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name,
                                            const std::string& folders);

  // FAILED_PRECONDITION when the library has no such function.
  template <typename Function>
  absl::Status Find(const char* name, Function*& function) const {
    void* address = nullptr;
    absl::Status found = FindAddress(name, address);
    function = reinterpret_cast<Function*>(address);
    return found;
  }
  const std::string& name() const { return name_; }

 private:
  SharedLibrary(std::string name, void* handle)
      : name_(std::move(name)), handle_(handle) {}
  absl::Status FindAddress(const char* name, void*& address) const;

  std::string name_;
  void* handle_;
};

}  // namespace gpupool::engine::cuda
