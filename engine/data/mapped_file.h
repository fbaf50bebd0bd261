// A whole file as read-only memory, for blobs, which never change once they
// have their name. Movable; any thread may read it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/statusor.h"

namespace gpupool::engine {

class MappedFile {
 public:
  // Maps the file. NOT_FOUND when it does not exist, INVALID_ARGUMENT when it
  // is not a regular file, INTERNAL when it cannot be mapped.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }

  std::string_view bytes() const {
    return {static_cast<const char*>(data_), size_};
  }

 private:
  MappedFile(void* data, size_t size) : data_(data), size_(size) {}

  void* data_;  // null when the file is empty
  size_t size_;
};

}  // namespace gpupool::engine
