// A window of a client's POSIX shared memory. It is read and written through
// its descriptor and never mapped: the client may truncate the file at any
// time, and access to a mapping would then end this process with SIGBUS.
//
// Only files directly in the folder of shared memory can be opened. Memory of
// the server's own is a memfd (server/ipc/memory_region.h), which has no name
// there.
//
// Thread-safety: immutable, any thread. What the bytes hold while the client
// writes them is up to the client, so every read is a copy. Ownership: owns the
// descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

// A region as a client names it.
struct RegionSpec {
  std::string name;  // in requests
  std::string key;   // of shm_open: "/name"
  uint64_t offset = 0;
  uint64_t bytes = 0;
};

// Limit of a name of a region.
inline constexpr size_t kMostRegionNameBytes = 256;

// Checks a key of shm_open: one '/', then 1 to 255 printable ASCII characters
// without another '/' and without "..". Names that the C library, NCCL or CUDA
// give to files of their own are refused. InvalidArgument says what is wrong.
absl::Status CheckRegionKey(absl::string_view key);

class SharedRegion {
 public:
  struct Source {
    std::string folder = "/dev/shm";
    // User of the program that asks, if it is known.
    std::optional<uint32_t> user;
  };

  // Opens a region. The file must belong to the user who asks, or be open to
  // everybody for reading and writing. Errors:
  //   * InvalidArgument: the key, an empty name or one that is too long, no
  //     bytes, or a window that is not in the file
  //   * NotFound: the file does not exist, is no regular file, or may not be
  //     used by the one who asks. The text does not tell these apart; the log
  //     does.
  static absl::StatusOr<std::shared_ptr<const SharedRegion>> Open(
      const RegionSpec& spec, const Source& source);

  const RegionSpec& spec() const { return spec_; }

  // Checks that `bytes` bytes from `offset` on are in the window.
  // InvalidArgument otherwise.
  absl::Status CheckWindow(uint64_t offset, uint64_t bytes) const;
  // Copies bytes of the window. FailedPrecondition when the file has become
  // shorter.
  absl::Status Read(uint64_t offset, absl::Span<std::byte> to) const;
  // Copies bytes into the window. FailedPrecondition when the file has become
  // shorter, or has no memory.
  absl::Status Write(uint64_t offset, absl::string_view bytes) const;

 private:
  SharedRegion(RegionSpec spec, UniqueFd fd)
      : spec_(std::move(spec)), fd_(std::move(fd)) {}

  // Checks that the file still has the bytes.
  absl::Status CheckFile(uint64_t end) const;

  const RegionSpec spec_;
  const UniqueFd fd_;
};

}  // namespace gpupool::server
