#include "engine/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Returns the size of a regular file. Others may block or have no size.
absl::StatusOr<size_t> RegularFileSize(int descriptor,
                                       const std::string& path) {
  struct stat facts;
  if (fstat(descriptor, &facts) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot examine ", path, ": ", std::strerror(errno)));
  }
  if (!S_ISREG(facts.st_mode)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " is not a regular file"));
  }
  return static_cast<size_t>(facts.st_size);
}

}  // namespace

absl::StatusOr<MappedFile> MappedFile::Open(const std::string& path) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0) {
    return absl::NotFoundError(
        absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  return OfDescriptor(descriptor, path);
}

absl::StatusOr<MappedFile> MappedFile::OfDescriptor(int descriptor,
                                                    const std::string& path) {
  // Closes the descriptor on every way out.
  MappedFile file(nullptr, 0, descriptor);
  ASSIGN_OR_RETURN(const size_t size, RegularFileSize(descriptor, path));
  // mmap refuses a length of 0, so an empty file has no mapping.
  if (size == 0) return file;
  void* data = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (data == MAP_FAILED) {
    return absl::InternalError(
        absl::StrCat("cannot map ", path, ": ", std::strerror(errno)));
  }
  file.data_ = data;
  file.size_ = size;
  return file;
}

absl::Status MappedFile::CheckWhole() const {
  struct stat facts;
  if (fstat(descriptor_, &facts) != 0) {
    return absl::InternalError(
        absl::StrCat("cannot examine a mapped file: ", std::strerror(errno)));
  }
  const auto size = static_cast<uint64_t>(facts.st_size);
  if (size >= size_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("a mapped file was cut off from ",
                                          size_, " to ", size,
                                          " bytes while it was read"));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
  if (descriptor_ >= 0) close(descriptor_);
}

}  // namespace gpupool::engine
