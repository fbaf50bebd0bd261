#include "server/ipc/memory_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/align.h"

namespace gpupool::server {
namespace {

// Sizes above this limit are refused before anything is mapped. A region that a
// peer sends is untrusted.
constexpr uint64_t kMaxRegionBytes = uint64_t{1} << 40;
// Without these seals the peer could truncate the file. A later access to the
// lost pages would end this process with SIGBUS.
constexpr int kSizeSeals = F_SEAL_SHRINK | F_SEAL_GROW;

absl::StatusOr<std::byte*> Map(int fd, uint64_t bytes) {
  void* data =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map ", bytes, " bytes of shared memory (errno ",
                     errno, "); lower the number or the size of the slots"));
  }
  return static_cast<std::byte*>(data);
}

}  // namespace

absl::StatusOr<MemoryRegion> MemoryRegion::Create(const std::string& name,
                                                  uint64_t bytes) {
  if (bytes == 0 || bytes > kMaxRegionBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a memory region has 1 to ", kMaxRegionBytes,
                     " bytes; asked for ", bytes));
  }
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  bytes = engine::AlignUp(bytes, page);
  UniqueFd fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid() || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, kSizeSeals | F_SEAL_SEAL) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot create ", bytes, " bytes of shared memory (errno ",
                     errno, ")"));
  }
  absl::StatusOr<std::byte*> data = Map(fd.get(), bytes);
  if (!data.ok()) return data.status();
  return MemoryRegion(std::move(fd), *data, bytes);
}

absl::StatusOr<MemoryRegion> MemoryRegion::Attach(UniqueFd fd) {
  // The seals are checked before the size is read, so that the size cannot
  // change after that.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSizeSeals) != kSizeSeals) {
    return absl::InvalidArgumentError(
        "the descriptor received is no memory region of a sealed size");
  }
  struct stat info = {};
  if (::fstat(fd.get(), &info) != 0 || info.st_size <= 0 ||
      static_cast<uint64_t>(info.st_size) > kMaxRegionBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the memory region received has ", info.st_size,
                     " bytes; 1 to ", kMaxRegionBytes, " are allowed"));
  }
  const uint64_t bytes = static_cast<uint64_t>(info.st_size);
  absl::StatusOr<std::byte*> data = Map(fd.get(), bytes);
  if (!data.ok()) return data.status();
  return MemoryRegion(std::move(fd), *data, bytes);
}

MemoryRegion::MemoryRegion(MemoryRegion&& other) noexcept
    : fd_(std::move(other.fd_)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

MemoryRegion& MemoryRegion::operator=(MemoryRegion&& other) noexcept {
  if (this == &other) return *this;
  if (data_ != nullptr) ::munmap(data_, bytes_);
  fd_ = std::move(other.fd_);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

MemoryRegion::~MemoryRegion() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace gpupool::server
