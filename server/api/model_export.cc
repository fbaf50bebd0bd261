#include "server/api/model_export.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "engine/base/status_macros.h"
#include "server/api/convert.h"

namespace gpupool::server {

void ModelExport::OnBegin() {
  std::weak_ptr<EventWriter<v1::ExportModelResponse>> weak = weak_from_this();
  control_->ExportModel(request_, [weak](absl::StatusOr<Header> header) {
    const auto stream = std::static_pointer_cast<ModelExport>(weak.lock());
    if (stream == nullptr) return;
    {
      absl::MutexLock lock(&stream->answer_mutex_);
      stream->answer_ = std::move(header);
    }
    stream->Wake();
  });
}

ModelExport::Step ModelExport::Next() {
  if (file_.has_value() && bytes_left_ == 0) return absl::OkStatus();
  absl::StatusOr<v1::ExportModelResponse> message;
  if (file_.has_value()) {
    message = ReadChunk();
  } else {
    absl::MutexLock lock(&answer_mutex_);
    if (!answer_.has_value()) return Idle{};
    if (!answer_->ok()) return answer_->status();
    message = Open(**answer_);
  }
  if (!message.ok()) return message.status();
  return *std::move(message);
}

absl::StatusOr<v1::ExportModelResponse> ModelExport::Open(
    const Header& header) {
  ASSIGN_OR_RETURN(file_, blobs_->OpenBlob(header.sha256()));
  bytes_left_ = header.total_bytes();
  v1::ExportModelResponse message;
  *message.mutable_header() = header;
  return message;
}

absl::StatusOr<v1::ExportModelResponse> ModelExport::ReadChunk() {
  v1::ExportModelResponse message;
  std::string& chunk = *message.mutable_chunk();
  chunk.resize(std::min<uint64_t>(bytes_left_, kMaxChunkBytes));
  const ssize_t count = ::read(file_->fd(), chunk.data(), chunk.size());
  if (count <= 0) {
    return absl::DataLossError("the exported file ends early; export again");
  }
  chunk.resize(static_cast<size_t>(count));
  bytes_left_ -= chunk.size();
  return message;
}

}  // namespace gpupool::server
