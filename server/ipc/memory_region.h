// A piece of memory that two processes share: a sealed memfd, mapped. It has
// no name, so only a process that was handed the descriptor can reach it, and
// its size can never change, so a mapped access cannot fault.
//
// Thread-safety: the object is immutable after creation; what the bytes mean
// and who may touch them is the user's affair. Owns descriptor and mapping.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

class MemoryRegion {
 public:
  // Zeroed memory of `bytes` (1 .. 2^40), rounded up to whole pages. `name`
  // is seen in /proc only. ResourceExhausted when the system has no memory or
  // no descriptors left.
  static absl::StatusOr<MemoryRegion> Create(const std::string& name,
                                             uint64_t bytes);

  // Maps a region received from another process. InvalidArgument when `fd` is
  // no memfd, is empty or its size is not sealed against growing and
  // shrinking: the sender could otherwise end this process with SIGBUS.
  static absl::StatusOr<MemoryRegion> Attach(UniqueFd fd);

  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  ~MemoryRegion();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // To be sent with SCM_RIGHTS; stays owned by the region.
  int fd() const { return fd_.get(); }

 private:
  MemoryRegion(UniqueFd fd, std::byte* data, uint64_t bytes)
      : fd_(std::move(fd)), data_(data), bytes_(bytes) {}

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace gpupool::server
