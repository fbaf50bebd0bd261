#include "engine/data/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

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
  absl::StatusOr<size_t> size = RegularFileSize(descriptor, path);
  void* data = nullptr;
  // mmap refuses a length of 0, so an empty file has no mapping.
  if (size.ok() && *size > 0) {
    data = mmap(nullptr, *size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  }
  // close may change errno. The mapping outlives the descriptor.
  const int map_error = errno;
  close(descriptor);
  if (!size.ok()) return size.status();
  if (data == MAP_FAILED) {
    return absl::InternalError(
        absl::StrCat("cannot map ", path, ": ", std::strerror(map_error)));
  }
  return MappedFile(data, *size);
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) munmap(data_, size_);
}

}  // namespace gpupool::engine
