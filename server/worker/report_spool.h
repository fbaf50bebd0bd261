// The reports that the daemon does not have on disk yet. They are kept in a
// file of records (server/ipc/spool_records.h), so that neither the worker's
// nor the daemon's end loses them, and are sent again until acknowledged.
//
// A truncated or damaged record ends the file. Everything behind it is dropped
// at the next start, as after a crash in the middle of a write.
//
// Invariants
//  1. Sequences rise, also across starts of the worker.
//  2. What happened to a job (anything but progress) is on disk when Add
//     returns, and stays there until acknowledged.
//  3. At most kMaxProgress unacknowledged progress reports are kept; beyond
//     that every second one is dropped, oldest first.
//
// Thread-safety: one thread. Owns the file.
#pragma once

#include <cstdint>
#include <deque>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {

class ReportSpool {
 public:
  static constexpr size_t kMaxProgress = 2048;
  static constexpr uint64_t kCompactBytes = uint64_t{4} << 20;

  // Reads the spool of an earlier worker at `path`. `now_micros` (since 1970)
  // starts the sequence above every sequence of an earlier spool, even when
  // that file was lost. Unavailable when the file cannot be opened.
  static absl::StatusOr<ReportSpool> Open(const std::string& path,
                                          uint64_t now_micros);

  // Gives `report` its sequence and keeps a copy. Unavailable when the disk
  // refuses; the report is then kept in memory only.
  absl::Status Add(worker::v1::Report* report);

  // Forgets the reports up to `through_sequence`.
  void Acknowledge(uint64_t through_sequence);

  // Returns the reports that are not acknowledged, oldest first.
  const std::deque<worker::v1::Report>& reports() const { return reports_; }
  uint64_t file_bytes() const { return file_bytes_; }

 private:
  ReportSpool(std::string path, UniqueFd file, uint64_t first_sequence)
      : path_(std::move(path)),
        file_(std::move(file)),
        next_sequence_(first_sequence) {}
  absl::Status Load();
  absl::Status Append(const worker::v1::Report& report, bool durable);
  void ThinProgress();
  void Compact();

  std::string path_;
  UniqueFd file_;
  uint64_t next_sequence_;
  uint64_t file_bytes_ = 0;
  size_t progress_count_ = 0;
  std::deque<worker::v1::Report> reports_;
};

}  // namespace gpupool::server
