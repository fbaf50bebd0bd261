// The audit log of a running server: a bounded queue between the ports and one
// thread that writes.
//
//   * Note never waits for the disk.
//   * Records are written at once, and synced at most every `sync_every`.
//   * While the disk refuses them they wait. When the queue is full, further
//     ones are lost and counted. A record of their number follows later.
//   * What waits when the log is closed and the disk takes nothing is lost. The
//     log of the server has the number, and the next start a record of it.
//   * When somebody removes the newest file, its records are lost and counted,
//     and the next file has a record of that.
//   * Of the denied calls of one second, kMostDenials are noted one by one, of
//     those of one hour kMostDenialsOfHour, and the rest as a number. Otherwise
//     whoever reaches a port could soon fill the files until the older ones are
//     deleted.
//
// Thread-safety: any thread. Ownership: owns its thread and the open file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "audit/audit_appender.h"
#include "audit/audit_record.h"
#include "audit/lost_number.h"

namespace gpupool::audit {

// Fates of a record that somebody noted.
enum class Fate {
  kWritten,
  kLost,     // the queue was full
  kCounted,  // a denied call that has no record of its own
};

struct LogOptions {
  AppenderOptions files;
  size_t queue_limit = 4096;
  absl::Duration sync_every = absl::Milliseconds(200);
  absl::Duration retry_after = absl::Seconds(1);  // when the disk refuses
  std::function<absl::Time()> now;
  // May be empty. All are called on the threads of Note or of the log, and must
  // not block.
  std::function<void(Fate, uint64_t)> count;
  std::function<void(size_t)> waiting;  // records in the queue
  std::function<void(const std::string&)> warn;
};

class AuditLog {
 public:
  static constexpr int kMostDenials = 50;  // in a second
  static constexpr int kMostDenialsOfHour = 5000;

  // Opens the files and writes a record of the start, before which it tells of
  // a torn line that was mended. The errors of AuditAppender::Open.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(LogOptions options);
  // Writes what waits and a record of the stop.
  ~AuditLog();

  // Adds a record, with the present time if it has none.
  void Note(Record record);

  // Blocks until everything noted before is written and synced. Unavailable
  // when the disk refuses that.
  absl::Status Flush();

 private:
  AuditLog(LogOptions options, std::unique_ptr<AuditAppender> appender);

  void Run();
  bool HasOwnRecord(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AddNumbers(bool stopping) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Push(Record record) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AwaitTurn() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Writes `batch_`. Syncs what was written if `sync_now` or when it is time.
  void WriteBatch(bool sync_now);
  absl::Status AppendBatch();
  // Tells of files that were removed while they were in use, and adds records
  // of that to `batch_`. Returns whether there were any.
  bool TellOfGoneFiles();
  void Tell(const absl::Status& status);
  // Notes what the stop before could not write.
  void NoteLostAtStop(const std::string& folder);
  // Tells the log, and the next start, what this stop could not write.
  void KeepLostAtStop();
  void Warn(const std::string& text) const;
  void Count(Fate fate, uint64_t records) const;

  const LogOptions options_;

  absl::Mutex mutex_;
  std::deque<Record> queue_ ABSL_GUARDED_BY(mutex_);
  size_t in_batch_ ABSL_GUARDED_BY(mutex_) = 0;  // taken and not yet written
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;  // without a record of it
  absl::Time second_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int denials_ ABSL_GUARDED_BY(mutex_) = 0;  // with records, in this second
  absl::Time hour_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  int denials_of_hour_ ABSL_GUARDED_BY(mutex_) = 0;    // with records
  uint64_t more_denials_ ABSL_GUARDED_BY(mutex_) = 0;  // without a record
  uint64_t flushes_ ABSL_GUARDED_BY(mutex_) = 0;       // asked for
  uint64_t flushed_ ABSL_GUARDED_BY(mutex_) = 0;       // done
  absl::Status state_ ABSL_GUARDED_BY(mutex_);         // of the last attempt

  // These belong to the thread.
  const std::unique_ptr<AuditAppender> appender_;
  std::deque<Record> batch_;
  LostNumber lost_at_stop_;
  bool unsynced_ = false;
  absl::Time last_sync_ = absl::InfinitePast();
  absl::Status last_;

  std::thread thread_;  // last, since it uses the others
};

}  // namespace gpupool::audit
