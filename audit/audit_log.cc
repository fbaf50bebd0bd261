#include "audit/audit_log.h"

#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

namespace gpupool::audit {

AuditLog::AuditLog(LogOptions options, std::unique_ptr<AuditAppender> appender)
    : options_(std::move(options)), appender_(std::move(appender)) {}

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(LogOptions options) {
  auto appender = AuditAppender::Open(options.files);
  if (!appender.ok()) return appender.status();
  const std::string mended = (*appender)->mended();
  auto log =
      absl::WrapUnique(new AuditLog(std::move(options), *std::move(appender)));
  if (!mended.empty()) {
    log->Warn(absl::StrCat("the audit log was torn: ", mended));
    log->Note({.event = "mended", .note = mended});
  }
  log->NoteLostAtStop(log->options_.files.folder);
  log->Note({.event = "start"});
  log->thread_ = std::thread([raw = log.get()] { raw->Run(); });
  return log;
}

AuditLog::~AuditLog() {
  if (!thread_.joinable()) return;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void AuditLog::Note(Record record) {
  const absl::Time now = options_.now();
  if (record.time == absl::InfinitePast()) record.time = now;
  absl::MutexLock lock(&mutex_);
  if (record.event == "denied" && !HasOwnRecord(now)) {
    ++more_denials_;
    Count(Fate::kCounted, 1);
    return;
  }
  Push(std::move(record));
}

// Counts a call that was denied now. Returns whether it gets a record.
bool AuditLog::HasOwnRecord(absl::Time now) {
  if (now < second_ || now - second_ >= absl::Seconds(1)) {
    AddNumbers(/*stopping=*/false);
    second_ = now;
    denials_ = 0;
  }
  if (now < hour_ || now - hour_ >= absl::Hours(1)) {
    hour_ = now;
    denials_of_hour_ = 0;
  }
  if (denials_ == kMostDenials || denials_of_hour_ == kMostDenialsOfHour) {
    return false;
  }
  ++denials_;
  ++denials_of_hour_;
  return true;
}

void AuditLog::Push(Record record) {
  if (queue_.size() + in_batch_ >= options_.queue_limit) {
    ++lost_;
    Count(Fate::kLost, 1);
    return;
  }
  queue_.push_back(std::move(record));
  if (options_.waiting) options_.waiting(queue_.size() + in_batch_);
}

// Adds records of the calls that got none of their own, as soon as there is
// room for them and the second of the denied calls is over.
void AuditLog::AddNumbers(bool stopping) {
  const absl::Time now = options_.now();
  const auto add = [&](const char* event, const char* what, uint64_t* number) {
    if (*number == 0 || queue_.size() + in_batch_ >= options_.queue_limit) {
      return;
    }
    queue_.push_back(
        {.time = now, .event = event, .note = absl::StrCat(*number, what)});
    *number = 0;
  };
  if (stopping || now < second_ || now - second_ >= absl::Seconds(1)) {
    add("denied-more", " further calls were denied", &more_denials_);
  }
  add("lost", " records were lost: the disk took none and the queue was full",
      &lost_);
}

bool AuditLog::HasNews() const {
  return stopping_ || !queue_.empty() || flushes_ != flushed_;
}

bool AuditLog::HasWork() const {
  return HasNews() || more_denials_ > 0 || lost_ > 0;
}

absl::Status AuditLog::Flush() {
  absl::MutexLock lock(&mutex_);
  const uint64_t mine = ++flushes_;
  const auto done = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return flushed_ >= mine;
  };
  mutex_.Await(absl::Condition(&done));
  return state_;
}

void AuditLog::Run() {
  bool stopping = false;
  while (!stopping) {
    mutex_.Lock();
    AwaitTurn();
    stopping = stopping_;
    const uint64_t flushes = flushes_;
    const bool sync_now = stopping || flushes != flushed_;
    AddNumbers(stopping);
    if (stopping) Push({.time = options_.now(), .event = "stop"});
    for (Record& record : queue_) batch_.push_back(std::move(record));
    queue_.clear();
    in_batch_ = batch_.size();
    mutex_.Unlock();
    WriteBatch(sync_now);
    absl::MutexLock lock(&mutex_);
    in_batch_ = batch_.size();
    if (options_.waiting) options_.waiting(queue_.size() + in_batch_);
    state_ = last_;
    flushed_ = flushes;
  }
  Count(Fate::kLost, batch_.size());
  KeepLostAtStop();
}

void AuditLog::NoteLostAtStop(const std::string& folder) {
  const absl::Status opened = lost_at_stop_.Open(folder);
  if (!opened.ok()) {
    Warn(absl::StrCat("a stop cannot keep the number of lost audit records: ",
                      opened.message()));
  }
  if (lost_at_stop_.number() == 0) return;
  Note({.event = "lost",
        .note = absl::StrCat(lost_at_stop_.number(),
                             " records were lost at the last stop: the disk "
                             "took none")});
}

void AuditLog::KeepLostAtStop() {
  absl::MutexLock lock(&mutex_);
  const uint64_t lost = batch_.size() + lost_ + more_denials_;
  if (lost == 0) return;
  Warn(absl::StrCat("the audit log was not written before the stop: ", lost,
                    " records are lost: ", last_.message()));
  // The record of an earlier number was not written either if one is left.
  const absl::Status kept = lost_at_stop_.Keep(lost_at_stop_.number() + lost);
  if (!kept.ok()) {
    Warn(absl::StrCat("the next start will have no record of them: ",
                      kept.message()));
  }
}

// Waits for something to write. At the latest for the time of the next sync,
// of the next record of denied calls, or of the next attempt to write.
void AuditLog::AwaitTurn() {
  if (!last_.ok()) {
    const auto urgent = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return stopping_ || flushes_ != flushed_;
    };
    mutex_.AwaitWithTimeout(absl::Condition(&urgent), options_.retry_after);
  } else if (unsynced_ || more_denials_ > 0 || lost_ > 0) {
    mutex_.AwaitWithTimeout(absl::Condition(this, &AuditLog::HasNews),
                            options_.sync_every);
  } else {
    mutex_.Await(absl::Condition(this, &AuditLog::HasWork));
  }
}

void AuditLog::WriteBatch(bool sync_now) {
  absl::Status status = AppendBatch();
  const absl::Time now = options_.now();
  const bool due =
      sync_now || now < last_sync_ || now - last_sync_ >= options_.sync_every;
  if (status.ok() && unsynced_ && due) {
    status = appender_->Sync();
    last_sync_ = now;
    unsynced_ = !status.ok();
    // The record of the number is among the first that are written.
    if (status.ok() && lost_at_stop_.number() > 0) {
      lost_at_stop_.Keep(0).IgnoreError();  // the next sync tries again
    }
  }
  if (TellOfGoneFiles()) {
    status = AppendBatch();
    if (status.ok()) status = appender_->Sync();
    unsynced_ = !status.ok();
  }
  Tell(status);
}

absl::Status AuditLog::AppendBatch() {
  const size_t before = batch_.size();
  absl::Status status = appender_->Append(&batch_);
  Count(Fate::kWritten, before - batch_.size());
  unsynced_ = unsynced_ || batch_.size() < before;
  return status;
}

bool AuditLog::TellOfGoneFiles() {
  const auto files = appender_->TakeGone();
  for (const auto& gone : files) {
    const uint64_t records = gone.last + 1 - gone.first;
    std::string text = absl::StrCat(
        gone.name, " was removed or replaced while the server used it, with ",
        records, " records");
    if (records > 0) {
      absl::StrAppend(&text, ", ", gone.first, " to ", gone.last);
    }
    Warn(absl::StrCat("the audit log lost a file, and a new one has begun: ",
                      text));
    Count(Fate::kLost, records);
    // At the front, so that a queue that is full cannot lose it.
    batch_.push_front(
        {.time = options_.now(), .event = "lost", .note = std::move(text)});
  }
  return !files.empty();
}

// Tells the log of the server when the disk begins and ends to refuse.
void AuditLog::Tell(const absl::Status& status) {
  const bool was_ok = last_.ok();
  last_ = status;
  if (was_ok == status.ok()) return;
  Warn(status.ok() ? "the audit log is written again"
                   : absl::StrCat("the audit log is not written; calls go on, "
                                  "and at most ",
                                  options_.queue_limit,
                                  " records wait: ", status.message()));
}

void AuditLog::Warn(const std::string& text) const {
  if (options_.warn) options_.warn(text);
}

void AuditLog::Count(Fate fate, uint64_t records) const {
  if (options_.count && records > 0) options_.count(fate, records);
}

}  // namespace gpupool::audit
