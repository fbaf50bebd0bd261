#include "server/api/transfer/memory_dump.h"

#include <utility>

#include "server/api/validation/convert.h"
#include "server/control/devices/device_requests.h"

namespace gpupool::server {

void MemoryDump::OnBegin() {
  std::weak_ptr<EventWriter<v1::DumpMemoryResponse>> weak = weak_from_this();
  worker::v1::ToWorker request;
  request.mutable_dump_memory();
  AskDevice(*control_, device_, std::move(request),
            [weak](absl::StatusOr<worker::v1::FromWorker> answer) {
              const auto stream =
                  std::static_pointer_cast<MemoryDump>(weak.lock());
              if (stream == nullptr) return;
              {
                absl::MutexLock lock(&stream->answer_mutex_);
                stream->answer_ = std::move(answer);
              }
              stream->Wake();
            });
}

MemoryDump::Step MemoryDump::Next() {
  if (!chunks_.has_value()) {
    absl::MutexLock lock(&answer_mutex_);
    if (!answer_.has_value()) return Idle{};
    if (!answer_->ok()) return answer_->status();
    const absl::Status taken = Take((*answer_)->dump_memory());
    if (!taken.ok()) return taken;
  }
  if (chunks_->done()) return absl::OkStatus();
  absl::StatusOr<v1::DumpMemoryResponse> message =
      chunks_->Next<v1::DumpMemoryResponse>(
          "the dump ends early; dump the memory again");
  if (!message.ok()) return message.status();
  return *std::move(message);
}

absl::Status MemoryDump::Take(const worker::v1::DumpMemoryReply& answer) {
  absl::StatusOr<BlobFile> file = blobs_->OpenBlob(answer.sha256());
  if (!file.ok()) {
    // Two streams dumped the same bytes, and the other one has taken the file.
    return absl::UnavailableError(
        absl::StrCat("the dump is gone: ", file.status().message(),
                     "; dump the memory again"));
  }
  chunks_.emplace(*std::move(file), answer.bytes());
  return blobs_->Delete(answer.sha256());
}

}  // namespace gpupool::server
