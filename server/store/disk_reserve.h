// A reserve of disk space for the database: a file that is allocated beforehand
// and given back when the disk is full, so that running jobs can still write
// their ends. While the reserve is incomplete, or the disk nearly full, nothing
// new is admitted.
//
// Thread-safety: any thread may call CheckRoom; the writer's thread everything
// else.
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
  // Creates or takes over the file. On a full disk it is incomplete, which is
  // no error. `bytes` 0: no file and no reserve. Unavailable when the file
  // cannot be opened.
  static absl::StatusOr<std::unique_ptr<DiskReserve>> Open(
      const std::string& path, uint64_t bytes);
  ~DiskReserve();

  // Gives the bytes back because the disk is full. Returns false when there are
  // none.
  bool Release();
  // Looks at the disk, at most once a second. Completes the reserve when twice
  // its bytes are free.
  void Look(absl::Time now);
  // Returns ResourceExhausted, with path, free bytes and remedy, while nothing
  // new should be admitted.
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
