// Private to server/api: a stream of a file that a worker has made, such as a
// dump of memory. It asks for the file, takes it out of the blob store if it is
// for one client, and writes it in chunks, which it reads as the client takes
// them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "server/api/rpc/event_writer.h"
#include "server/api/transfer/file_chunks.h"
#include "server/control/calls/callback.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

// A blob that a worker has written. `Response` is the message that carries its
// chunks.
template <typename Response>
struct MadeFile {
  std::string sha256;
  uint64_t bytes = 0;
  Response first = {};  // the other fields of the first message
  bool kept = false;    // stays in the blob store
};

// The stream. `Response` must have a field `chunk`.
template <typename Response>
class WorkerFile : public EventWriter<Response> {
 public:
  using Made = MadeFile<Response>;
  using Ask = std::function<void(Callback<Made>)>;

  // `blobs` must outlive the stream. `ask` is called once. `remedy` says what
  // the client may do when the file is gone or short.
  WorkerFile(const BlobStore* blobs, Ask ask, std::string remedy)
      : blobs_(blobs), ask_(std::move(ask)), remedy_(std::move(remedy)) {}

 protected:
  using typename EventWriter<Response>::Idle;
  using typename EventWriter<Response>::Step;

  void OnBegin() override {
    std::weak_ptr<EventWriter<Response>> weak = this->weak_from_this();
    ask_([weak](absl::StatusOr<Made> answer) {
      const auto stream = std::static_pointer_cast<WorkerFile>(weak.lock());
      if (stream == nullptr) return;
      {
        absl::MutexLock lock(&stream->answer_mutex_);
        stream->answer_ = std::move(answer);
      }
      stream->Wake();
    });
  }

  Step Next() override {
    Response message;
    if (!chunks_.has_value()) {
      absl::MutexLock lock(&answer_mutex_);
      if (!answer_.has_value()) return Idle{};
      if (!answer_->ok()) return answer_->status();
      const absl::Status taken = Take(**answer_);
      if (!taken.ok()) return taken;
      message = std::move((*answer_)->first);
    }
    if (chunks_->done()) return absl::OkStatus();
    absl::StatusOr<Response> chunk =
        chunks_->Next<Response>(absl::StrCat("the file ends early; ", remedy_));
    if (!chunk.ok()) return chunk.status();
    message.set_chunk(std::move(*chunk->mutable_chunk()));
    return message;
  }

 private:
  absl::Status Take(const Made& made) {
    absl::StatusOr<BlobFile> file = blobs_->OpenBlob(made.sha256);
    if (!file.ok() && made.kept) {
      return absl::DataLossError(absl::StrCat(
          "the file is missing: ", file.status().message(), "; ", remedy_));
    }
    if (!file.ok()) {
      // Two streams got the same bytes, and the other one has taken the file.
      return absl::UnavailableError(absl::StrCat(
          "the file is gone: ", file.status().message(), "; ", remedy_));
    }
    chunks_.emplace(*std::move(file), made.bytes);
    return made.kept ? absl::OkStatus() : blobs_->Delete(made.sha256);
  }

  const BlobStore* const blobs_;
  const Ask ask_;
  const std::string remedy_;
  // Chunks of a file that may be unlinked. Its bytes stay while it is open.
  std::optional<FileChunks> chunks_;
  absl::Mutex answer_mutex_;
  std::optional<absl::StatusOr<Made>> answer_ ABSL_GUARDED_BY(answer_mutex_);
};

}  // namespace gpupool::server
