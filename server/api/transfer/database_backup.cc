#include "server/api/transfer/database_backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "server/api/validation/convert.h"

namespace gpupool::server {

void DatabaseBackup::OnBegin() {
  // Weak, since the client may leave long before the copy is done.
  std::weak_ptr<EventWriter<v1::BackUpDatabaseResponse>> weak =
      weak_from_this();
  const absl::Status begun = care_->Copy([weak](Answer answer) {
    const auto stream = std::static_pointer_cast<DatabaseBackup>(weak.lock());
    if (stream != nullptr) stream->Take(std::move(answer));
  });
  if (!begun.ok()) Take(begun);
}

void DatabaseBackup::Take(Answer answer) {
  {
    absl::MutexLock lock(&answer_mutex_);
    answer_ = std::move(answer);
  }
  Wake();
}

// Sends the header when the copy is there, then chunk after chunk.
DatabaseBackup::Step DatabaseBackup::Next() {
  if (chunks_.has_value() && chunks_->done()) return absl::OkStatus();
  absl::StatusOr<v1::BackUpDatabaseResponse> message;
  if (chunks_.has_value()) {
    message = chunks_->Next<v1::BackUpDatabaseResponse>(
        "the copy ends early; back up again");
  } else {
    absl::MutexLock lock(&answer_mutex_);
    if (!answer_.has_value()) return Idle{};
    if (!answer_->ok()) return answer_->status();
    message = Open(**std::move(answer_));
  }
  if (!message.ok()) return message.status();
  return *std::move(message);
}

absl::StatusOr<v1::BackUpDatabaseResponse> DatabaseBackup::Open(BlobFile file) {
  struct stat facts = {};
  if (fstat(file.fd(), &facts) != 0) {
    return absl::ErrnoToStatus(errno, "looking at the copy");
  }
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  chunks_.emplace(std::move(file), bytes);
  v1::BackUpDatabaseResponse message;
  message.mutable_header()->set_total_bytes(bytes);
  return message;
}

}  // namespace gpupool::server
