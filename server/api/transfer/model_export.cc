#include "server/api/transfer/model_export.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"
#include "server/control/models/model_requests.h"

namespace gpupool::server {

void ModelExport::OnBegin() {
  std::weak_ptr<EventWriter<v1::ExportModelResponse>> weak = weak_from_this();
  server::ExportModel(
      *control_, request_, [weak](absl::StatusOr<Header> header) {
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
  if (chunks_.has_value() && chunks_->done()) return absl::OkStatus();
  absl::StatusOr<v1::ExportModelResponse> message;
  if (chunks_.has_value()) {
    message = chunks_->Next<v1::ExportModelResponse>(
        "the exported file ends early; export again");
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
  ASSIGN_OR_RETURN(BlobFile file, blobs_->OpenBlob(header.sha256()));
  chunks_.emplace(std::move(file), header.total_bytes());
  v1::ExportModelResponse message;
  *message.mutable_header() = header;
  return message;
}

}  // namespace gpupool::server
