// Memory that two processes share: a sealed, mapped memfd. It has no name, so
// that only a process that was given the descriptor can reach it. Its size can
// never change, so that access to the mapping cannot fault.
//
// Thread-safety: the object is immutable after creation. The users agree on the
// meaning of the bytes and on who may touch them. Owns descriptor and mapping.
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
  // Makes zeroed memory of `bytes` (1 .. 2^40), rounded up to whole pages.
  // `name` is visible in /proc only. ResourceExhausted when the system has no
  // memory or no descriptors left.
  static absl::StatusOr<MemoryRegion> Create(const std::string& name,
                                             uint64_t bytes);

  // Maps a region that another process sent. InvalidArgument when `fd` is no
  // memfd, is empty, or may grow or shrink: the sender could then end this
  // process with SIGBUS.
  static absl::StatusOr<MemoryRegion> Attach(UniqueFd fd);

  MemoryRegion(MemoryRegion&& other) noexcept;
  MemoryRegion& operator=(MemoryRegion&& other) noexcept;
  ~MemoryRegion();

  std::byte* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  // Returns the descriptor, to be sent with SCM_RIGHTS. The region keeps it.
  int fd() const { return fd_.get(); }

 private:
  MemoryRegion(UniqueFd fd, std::byte* data, uint64_t bytes)
      : fd_(std::move(fd)), data_(data), bytes_(bytes) {}

  UniqueFd fd_;
  std::byte* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace gpupool::server
