#include "server/api/memory_dump.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "server/api/convert.h"

namespace gpupool::server {

void MemoryDump::OnBegin() {
  std::weak_ptr<EventWriter<v1::DumpMemoryResponse>> weak = weak_from_this();
  control_->DumpMemory(device_, [weak](absl::StatusOr<Answer> answer) {
    const auto stream = std::static_pointer_cast<MemoryDump>(weak.lock());
    if (stream == nullptr) return;
    {
      absl::MutexLock lock(&stream->answer_mutex_);
      stream->answer_ = std::move(answer);
    }
    stream->Wake();
  });
}

MemoryDump::Step MemoryDump::Next() {
  if (!file_.has_value()) {
    absl::MutexLock lock(&answer_mutex_);
    if (!answer_.has_value()) return Idle{};
    if (!answer_->ok()) return answer_->status();
    const absl::Status taken = Take(**answer_);
    if (!taken.ok()) return taken;
  }
  if (bytes_left_ == 0) return absl::OkStatus();
  absl::StatusOr<v1::DumpMemoryResponse> message = ReadChunk();
  if (!message.ok()) return message.status();
  return *std::move(message);
}

absl::Status MemoryDump::Take(const Answer& answer) {
  absl::StatusOr<BlobFile> file = blobs_->OpenBlob(answer.sha256());
  if (!file.ok()) {
    // The same bytes, dumped twice at once: the other stream was faster.
    return absl::UnavailableError(
        absl::StrCat("the dump is gone: ", file.status().message(),
                     "; dump the memory again"));
  }
  file_ = *std::move(file);
  bytes_left_ = answer.bytes();
  return blobs_->Delete(answer.sha256());
}

absl::StatusOr<v1::DumpMemoryResponse> MemoryDump::ReadChunk() {
  v1::DumpMemoryResponse message;
  std::string& chunk = *message.mutable_chunk();
  chunk.resize(std::min<uint64_t>(bytes_left_, kMaxChunkBytes));
  const ssize_t count = ::read(file_->fd(), chunk.data(), chunk.size());
  if (count <= 0) {
    return absl::DataLossError("the dump ends early; dump the memory again");
  }
  chunk.resize(static_cast<size_t>(count));
  bytes_left_ -= chunk.size();
  return message;
}

}  // namespace gpupool::server
