#include "server/store/disk_reserve.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Seconds(1);
constexpr double kMiB = 1 << 20;

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace

absl::StatusOr<std::unique_ptr<DiskReserve>> DiskReserve::Open(
    const std::string& path, uint64_t bytes) {
  // Without a reserve, the descriptor of the folder still measures the disk.
  const int fd = bytes > 0
                     ? open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)
                     : open(FolderOf(path).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    return absl::UnavailableError(
        absl::StrCat("opening ", path, ": ", std::strerror(errno)));
  }
  auto reserve = absl::WrapUnique(new DiskReserve(path, bytes, fd));
  struct stat info;
  reserve->whole_ =
      bytes == 0 ||
      (fstat(fd, &info) == 0 && static_cast<uint64_t>(info.st_size) == bytes);
  if (!reserve->whole_) reserve->Fill();
  reserve->full_ = !reserve->whole_;
  return reserve;
}

DiskReserve::~DiskReserve() { close(fd_); }

bool DiskReserve::Release() {
  full_ = true;
  const bool had = whole_ && bytes_ > 0;
  // The reserve is used up. It is filled again when the disk has room.
  whole_ = bytes_ == 0;
  return had && ftruncate(fd_, 0) == 0;
}

// Allocates the file. An incomplete one is given back, since the database may
// need the bytes.
void DiskReserve::Fill() {
  whole_ = ftruncate(fd_, static_cast<off_t>(bytes_)) == 0 &&
           // A file with holes would not hold any bytes back.
           posix_fallocate(fd_, 0, static_cast<off_t>(bytes_)) == 0 &&
           fsync(fd_) == 0;
  if (!whole_) std::ignore = ftruncate(fd_, 0);
}

void DiskReserve::Look(absl::Time now) {
  // The clock may have been set back.
  if (now - looked_ < kBetweenLooks && now >= looked_) return;
  looked_ = now;
  const uint64_t free = FreeBytes();
  // Hysteresis: full below a quarter of the reserve, open again above twice the
  // reserve, so that admission does not flap.
  if (whole_ && free < bytes_ / 4) full_ = true;
  if (free < 2 * bytes_) return;
  if (!whole_) Fill();
  full_ = !whole_;
}

uint64_t DiskReserve::FreeBytes() const {
  struct statvfs info;
  if (fstatvfs(fd_, &info) != 0) return 0;
  return static_cast<uint64_t>(info.f_bavail) * info.f_frsize;
}

absl::Status DiskReserve::CheckRoom() const {
  if (!full_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "the disk of ", FolderOf(path_), " is full: ", FreeBytes(),
      " bytes are free; running jobs go on, and new ones are taken again when "
      "at least ",
      2 * static_cast<double>(bytes_) / kMiB,
      " MiB are: delete files there or enlarge the disk"));
}

}  // namespace gpupool::server
