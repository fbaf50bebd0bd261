// Private to server/api: one BackUpDatabase stream. It has the database copied,
// then writes the copy in chunks, which it reads as the client takes them.
#pragma once

#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/admin.pb.h"
#include "server/api/rpc/event_writer.h"
#include "server/api/transfer/database_care.h"
#include "server/api/transfer/file_chunks.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class DatabaseBackup : public EventWriter<v1::BackUpDatabaseResponse> {
 public:
  // `care` must outlive the stream.
  explicit DatabaseBackup(DatabaseCare* care) : care_(care) {}

 protected:
  void OnBegin() override;
  Step Next() override;

 private:
  using Answer = absl::StatusOr<BlobFile>;

  void Take(Answer answer);
  absl::StatusOr<v1::BackUpDatabaseResponse> Open(BlobFile file);

  DatabaseCare* const care_;
  std::optional<FileChunks> chunks_;  // chunks of an unlinked file
  absl::Mutex answer_mutex_;
  std::optional<Answer> answer_ ABSL_GUARDED_BY(answer_mutex_);
};

}  // namespace gpupool::server
