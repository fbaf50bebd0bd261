// Bytes that the state folder's disk keeps for the database: a file that is
// allocated beforehand and given back when the disk is full, so that what runs
// can still end on disk. While it is not whole, or the disk nearly full,
// nothing new is admitted.
//
// Thread-safety: CheckRoom serves any thread, the rest one (the writer).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gpupool::server {

class DiskReserve {
 public:
  // Makes the file, or takes the one that is there. On a full disk it is not
  // whole, which is no error. `bytes` 0: there is neither file nor reserve.
  // Unavailable when the file cannot be opened.
  static absl::StatusOr<std::unique_ptr<DiskReserve>> Open(
      const std::string& path, uint64_t bytes);
  ~DiskReserve();

  // The disk is full: gives the bytes back. False when there are none.
  bool Release();
  // Looks at the disk, at most once a second, and makes the reserve whole where
  // twice its bytes are free.
  void Look(absl::Time now);
  // ResourceExhausted, with path, free bytes and remedy, while nothing new
  // should be admitted.
  absl::Status CheckRoom() const;

 private:
  DiskReserve(std::string path, uint64_t bytes, int fd)
      : path_(std::move(path)), bytes_(bytes), fd_(fd) {}
  uint64_t FreeBytes() const;
  void Fill();

  const std::string path_;
  const uint64_t bytes_;
  const int fd_;
  bool whole_ = false;
  absl::Time looked_ = absl::InfinitePast();
  std::atomic<bool> full_ = false;
};

}  // namespace gpupool::server
