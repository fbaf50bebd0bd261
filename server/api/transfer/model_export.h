// Private to server/api: one ExportModel stream. It asks control for the file
// and writes it in chunks, which it reads as the client takes them.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/model.pb.h"
#include "server/api/rpc/event_writer.h"
#include "server/api/transfer/file_chunks.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

struct ControlContext;

class ModelExport : public EventWriter<v1::ExportModelResponse> {
 public:
  // Both pointers must outlive the stream.
  ModelExport(const ControlContext* control, const BlobStore* blobs,
              v1::ExportModelRequest request)
      : control_(control), blobs_(blobs), request_(std::move(request)) {}

 protected:
  void OnBegin() override;
  Step Next() override;

 private:
  using Header = v1::ExportModelResponse::Header;

  absl::StatusOr<v1::ExportModelResponse> Open(const Header& header);

  const ControlContext* const control_;
  const BlobStore* const blobs_;
  const v1::ExportModelRequest request_;
  // Chunks of a file that may be swept away; its bytes stay while it is open.
  std::optional<FileChunks> chunks_;
  absl::Mutex answer_mutex_;
  std::optional<absl::StatusOr<Header>> answer_ ABSL_GUARDED_BY(answer_mutex_);
};

}  // namespace gpupool::server
