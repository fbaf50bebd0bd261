// Private to server/api: one DumpMemory stream. It asks control for the file,
// takes it out of the blob store and writes it in chunks, which it reads as the
// client takes them.
#pragma once

#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/api/rpc/event_writer.h"
#include "server/api/transfer/file_chunks.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

struct ControlContext;

class MemoryDump : public EventWriter<v1::DumpMemoryResponse> {
 public:
  // Both pointers must outlive the stream.
  MemoryDump(const ControlContext* control, const BlobStore* blobs,
             std::string device)
      : control_(control), blobs_(blobs), device_(std::move(device)) {}

 protected:
  void OnBegin() override;
  Step Next() override;

 private:
  absl::Status Take(const worker::v1::DumpMemoryReply& answer);

  const ControlContext* const control_;
  const BlobStore* const blobs_;
  const std::string device_;
  // Chunks of an unlinked file, whose bytes stay while it is open.
  std::optional<FileChunks> chunks_;
  absl::Mutex answer_mutex_;
  std::optional<absl::StatusOr<worker::v1::FromWorker>> answer_
      ABSL_GUARDED_BY(answer_mutex_);
};

}  // namespace gpupool::server
