// A vendor's shared library, found at run time. So the module also starts on
// machines that lack the library or keep it in an unusual folder.
//
// Thread-safety: immutable. Libraries are never unloaded, since vendors'
// libraries do not survive that.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::cuda {

// A function's name and the pointer to fill.
class FunctionSlot {
 public:
  template <typename Function>
  FunctionSlot(const char* name, Function*& slot)
      : name_(name), slot_(&slot), set_([](void* to, void* address) {
          *static_cast<Function**>(to) = reinterpret_cast<Function*>(address);
        }) {}

  const char* name() const { return name_; }
  void Set(void* address) const { set_(slot_, address); }

 private:
  const char* name_;
  void* slot_;
  void (*set_)(void* slot, void* address);
};

class SharedLibrary {
 public:
  // Opens a library. `name` is as in "libcublasLt.so.13". Looks in each of
  // `folders`, which are separated by colons, and then where the dynamic linker
  // looks. NOT_FOUND names both.
  static absl::StatusOr<SharedLibrary> Open(const std::string& name,
                                            const std::string& folders);

  // Fills the slots. FAILED_PRECONDITION names a function that the library
  // lacks.
  absl::Status Find(std::initializer_list<FunctionSlot> functions) const;
  const std::string& name() const { return name_; }
  // Returns the path of the loaded file, or its name when the linker does not
  // tell.
  std::string path() const;

 private:
  SharedLibrary(std::string name, void* handle)
      : name_(std::move(name)), handle_(handle) {}

  std::string name_;
  void* handle_;
};

// Returns "9.19.0" for 91900, as NVIDIA's libraries number themselves.
std::string LibraryVersion(int64_t version);

}  // namespace gpupool::engine::cuda
