#include "server/api/database_backup.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <utility>

#include "server/api/convert.h"

namespace gpupool::server {

void DatabaseBackup::OnBegin() {
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

DatabaseBackup::Step DatabaseBackup::Next() {
  if (file_.has_value() && bytes_left_ == 0) return absl::OkStatus();
  absl::StatusOr<v1::BackUpDatabaseResponse> message;
  if (file_.has_value()) {
    message = ReadChunk();
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
  file_ = std::move(file);
  bytes_left_ = static_cast<uint64_t>(facts.st_size);
  v1::BackUpDatabaseResponse message;
  message.mutable_header()->set_total_bytes(bytes_left_);
  return message;
}

absl::StatusOr<v1::BackUpDatabaseResponse> DatabaseBackup::ReadChunk() {
  v1::BackUpDatabaseResponse message;
  std::string& chunk = *message.mutable_chunk();
  chunk.resize(std::min<uint64_t>(bytes_left_, kMaxChunkBytes));
  const ssize_t count = ::read(file_->fd(), chunk.data(), chunk.size());
  if (count <= 0) {
    return absl::DataLossError("the copy ends early; back up again");
  }
  chunk.resize(static_cast<size_t>(count));
  bytes_left_ -= chunk.size();
  return message;
}

}  // namespace gpupool::server
