// Adds records to the files of an audit log, and keeps their chain.
//
// Invariants:
//   1. The newest file has whole lines up to size_. What is behind that is the
//      rest of a write that failed, and is removed before the next one.
//   2. place_ is the place of the next record. It moves when its line is
//      written.
//
// Thread-safety: none; it belongs to one thread. Ownership: owns the open file.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "audit/audit_record.h"

namespace gpupool::audit {

struct AppenderOptions {
  std::string folder;  // made if it does not exist; its parent must exist
  uint64_t file_bytes = uint64_t{64} << 20;  // of a file, about
  uint64_t files = 16;  // kept, with the newest; at least 2
};

class AuditAppender {
 public:
  // Opens the newest file, or makes the first one. Removes a torn last line.
  // Errors:
  //   * DataLoss: the last record is no record, so that nothing can follow it
  //   * Unavailable: the system refuses a file
  static absl::StatusOr<std::unique_ptr<AuditAppender>> Open(
      AppenderOptions options);
  ~AuditAppender();

  // Writes records as the next lines, and removes them from `records`. Begins a
  // new file where one is full, and deletes the oldest. After an error
  // `records` has those that are not written. Call it again later.
  absl::Status Append(std::deque<Record>* records);

  // Blocks until what was appended is on the disk.
  absl::Status Sync();

  // Append and Sync notice that the file was removed from the folder, renamed
  // or replaced, and begin the next one, which goes on with the chain.
  struct GoneFile {
    std::string name;
    // Sequence numbers of its records. They are gone with it if it was removed.
    uint64_t first = 0;
    uint64_t last = 0;  // below `first` if it had none
  };
  // Returns the files that were gone since the last call.
  std::vector<GoneFile> TakeGone() { return std::exchange(gone_, {}); }

  // Returns what Open removed, in words; empty if nothing.
  const std::string& mended() const { return mended_; }
  // Returns the sequence number of the next record.
  uint64_t next_sequence() const { return place_.sequence; }

 private:
  explicit AuditAppender(AppenderOptions options);

  absl::Status OpenNewest();
  // Sets place_ from the last line of the file before `number`, if there is
  // one.
  absl::Status FollowFileBefore(uint64_t number);
  // Removes what is behind the last whole line, and sets size_ and place_. Sets
  // `empty` if there is no whole line.
  absl::Status TakeUp(const std::string& path, bool* empty);
  // Writes lines at the end of the file; all of them or none.
  absl::Status Write(const std::string& lines);
  absl::Status SyncFile();
  absl::Status BeginFile(uint64_t number);
  // Returns whether the name of the file leads to it no more.
  bool IsGone() const;
  absl::Status ReplaceGoneFile();
  void DeleteOldFiles();

  const AppenderOptions options_;
  int file_ = -1;
  uint64_t number_ = 0;
  uint64_t size_ = 0;
  bool has_rest_ = false;  // behind size_
  Place place_;
  uint64_t first_ = 1;  // sequence number of the first record of the file
  std::vector<GoneFile> gone_;
  std::string mended_;
};

}  // namespace gpupool::audit
