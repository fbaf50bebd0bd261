// A whole file as read-only memory, for blobs, which never change once they
// have their name. Movable; any thread may read it.
//
// If something cuts the file off all the same, reading the lost pages ends the
// process (SIGBUS). Whoever keeps a mapping for long calls CheckWhole before
// each use. What remains: a cut between that call and the use, and errors of
// the disk.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpupool::engine {

class MappedFile {
 public:
  // Maps the file. NOT_FOUND when it does not exist, INVALID_ARGUMENT when it
  // is not a regular file, INTERNAL when it cannot be mapped.
  static absl::StatusOr<MappedFile> Open(const std::string& path);
  // Maps the file of a descriptor, which it takes over, as Open does.
  static absl::StatusOr<MappedFile> OfDescriptor(int descriptor,
                                                 const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        descriptor_(std::exchange(other.descriptor_, -1)) {}
  MappedFile& operator=(MappedFile&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  std::string_view bytes() const {
    return {static_cast<const char*>(data_), size_};
  }

  // Returns DATA_LOSS when the file is now shorter than the mapping.
  absl::Status CheckWhole() const;

 private:
  MappedFile(void* data, size_t size, int descriptor)
      : data_(data), size_(size), descriptor_(descriptor) {}

  void* data_;  // null when the file is empty
  size_t size_;
  int descriptor_;
};

}  // namespace gpupool::engine
