#include "server/serving/regions/shared_region.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

constexpr size_t kMostKeyBytes = 255;  // NAME_MAX, after the '/'
// Names of semaphores of the C library, of buffers between the ranks of a job,
// and of the CUDA driver.
constexpr absl::string_view kForeignNames[] = {"sem.", "nccl-", "cuda.shm."};
constexpr mode_t kOpenToAll = S_IROTH | S_IWOTH;

absl::Status BadKey(absl::string_view key, absl::string_view fault) {
  return absl::InvalidArgumentError(absl::StrCat(
      "key '", absl::CHexEscape(key.substr(0, kMostKeyBytes)),
      "' of a shared memory region ", fault,
      "; give the name of shm_open, one '/' and then up to ", kMostKeyBytes,
      " printable characters without '/' and '..'"));
}

// Returns an error that does not tell whether somebody else's file exists.
absl::Status CannotOpen(const RegionSpec& spec, absl::string_view reason) {
  spdlog::warn("shared memory refused key=\"{}\" reason=\"{}\"",
               absl::CHexEscape(spec.key), std::string(reason));
  return absl::NotFoundError(absl::StrCat(
      "Unable to open shared memory region: '", spec.key,
      "'; it must be a regular file in /dev/shm of the user who runs the "
      "client, which the server can open, or be open to all users (mode 0666); "
      "the server's log has the reason"));
}

bool MayUse(const struct stat& file, std::optional<uint32_t> user) {
  return (file.st_mode & kOpenToAll) == kOpenToAll ||
         (user.has_value() && file.st_uid == *user);
}

absl::Status CheckSpec(const RegionSpec& spec) {
  if (spec.name.empty() || spec.name.size() > kMostRegionNameBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the name of a shared memory region has ", spec.name.size(),
        " bytes; 1 to ", kMostRegionNameBytes, " are allowed"));
  }
  RETURN_IF_ERROR(CheckRegionKey(spec.key));
  if (spec.bytes > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("shared memory region '", spec.name,
                   "' has a byte_size of 0; give the bytes that it has"));
}

// Checks that the window is in a file of this size. Its end is then a number
// that file offsets can hold.
absl::Status CheckSize(const RegionSpec& spec, off_t file_bytes) {
  const uint64_t size = file_bytes < 0 ? 0 : static_cast<uint64_t>(file_bytes);
  if (spec.offset <= size && spec.bytes <= size - spec.offset) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "shared memory region '", spec.name, "' of offset ", spec.offset,
      " and byte_size ", spec.bytes, " is not in '", spec.key, "', which has ",
      size, " bytes; make it larger before it is registered"));
}

}  // namespace

absl::Status CheckRegionKey(absl::string_view key) {
  if (!absl::StartsWith(key, "/")) return BadKey(key, "begins with no '/'");
  const absl::string_view name = key.substr(1);
  if (name.empty()) return BadKey(key, "has no name after the '/'");
  if (name.size() > kMostKeyBytes) {
    return BadKey(key, absl::StrCat("has ", key.size(), " bytes"));
  }
  if (absl::StrContains(name, "/")) return BadKey(key, "has a second '/'");
  if (name == "." || absl::StrContains(name, "..")) {
    return BadKey(key, "names a folder");
  }
  const bool printable = std::all_of(
      name.begin(), name.end(), [](char c) { return c > ' ' && c <= '~'; });
  if (!printable) {
    return BadKey(key, "has a character that is not printable ASCII");
  }
  for (const absl::string_view foreign : kForeignNames) {
    if (absl::StartsWith(name, foreign)) {
      return BadKey(key, absl::StrCat("begins with '", foreign,
                                      "', which system libraries use"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const SharedRegion>> SharedRegion::Open(
    const RegionSpec& spec, const Source& source) {
  RETURN_IF_ERROR(CheckSpec(spec));
  const std::string path = absl::StrCat(source.folder, spec.key);
  // No link is followed, and no device or pipe makes the call wait.
  constexpr int kFlags =
      O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
  UniqueFd fd(::open(path.c_str(), kFlags));
  if (!fd.valid()) return CannotOpen(spec, std::strerror(errno));
  struct stat file = {};
  if (::fstat(fd.get(), &file) != 0) {
    return CannotOpen(spec, std::strerror(errno));
  }
  if (!S_ISREG(file.st_mode)) return CannotOpen(spec, "no regular file");
  if (!MayUse(file, source.user)) {
    return CannotOpen(
        spec, absl::StrCat("it is of user ", file.st_uid, ", asked for by ",
                           source.user.has_value()
                               ? absl::StrCat("user ", *source.user)
                               : std::string("an unknown user")));
  }
  RETURN_IF_ERROR(CheckSize(spec, file.st_size));
  return std::shared_ptr<const SharedRegion>(
      absl::WrapUnique(new SharedRegion(spec, std::move(fd))));
}

absl::Status SharedRegion::CheckWindow(uint64_t offset, uint64_t bytes) const {
  if (offset <= spec_.bytes && bytes <= spec_.bytes - offset) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "shared memory region '", spec_.name, "' has ", spec_.bytes,
      " bytes, so ", bytes, " bytes at offset ", offset, " are not in it"));
}

absl::Status SharedRegion::CheckFile(uint64_t end) const {
  struct stat file = {};
  if (::fstat(fd_.get(), &file) == 0 && file.st_size >= 0 &&
      static_cast<uint64_t>(file.st_size) >= end) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "shared memory region '", spec_.name, "' has become smaller, '",
      spec_.key, "' has ", file.st_size, " bytes and ", end,
      " are needed; keep its size until it is unregistered"));
}

absl::Status SharedRegion::Read(uint64_t offset,
                                absl::Span<std::byte> to) const {
  RETURN_IF_ERROR(CheckWindow(offset, to.size()));
  uint64_t at = spec_.offset + offset;
  while (!to.empty()) {
    const ssize_t got =
        ::pread(fd_.get(), to.data(), to.size(), static_cast<off_t>(at));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      RETURN_IF_ERROR(CheckFile(at + to.size()));
      return absl::FailedPreconditionError(absl::StrCat(
          "shared memory region '", spec_.name, "' cannot be read (errno ",
          got < 0 ? errno : 0, "); register it again"));
    }
    to.remove_prefix(static_cast<size_t>(got));
    at += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status SharedRegion::Write(uint64_t offset,
                                 absl::string_view bytes) const {
  RETURN_IF_ERROR(CheckWindow(offset, bytes.size()));
  uint64_t at = spec_.offset + offset;
  // A write beyond the end would make the file larger again.
  RETURN_IF_ERROR(CheckFile(at + bytes.size()));
  while (!bytes.empty()) {
    const ssize_t put =
        ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(at));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) {
      return absl::FailedPreconditionError(absl::StrCat(
          "shared memory region '", spec_.name, "' cannot be written (errno ",
          put < 0 ? errno : 0, "); /dev/shm may be full"));
    }
    bytes.remove_prefix(static_cast<size_t>(put));
    at += static_cast<uint64_t>(put);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
