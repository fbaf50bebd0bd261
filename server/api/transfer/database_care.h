// Private to server/api: checks and copies the database of the running server.
// Both may take minutes, so they run on a thread of its own, one at a time.
//
// Thread-safety: any thread. `done` is called once, on that thread, unless the
// call was refused: with ResourceExhausted while another one runs, with
// Unavailable after Stop.
#pragma once

#include <functional>
#include <stop_token>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "server/store/blob_store.h"
#include "server/store/check.h"

namespace gpupool::server {

class DatabaseCare {
 public:
  template <typename T>
  using Done = std::function<void(absl::StatusOr<T>)>;

  // `path` is the database. Removes the remains of a killed copy.
  explicit DatabaseCare(std::string path);
  ~DatabaseCare() { Stop(); }

  absl::Status Check(Done<CheckReport> done);
  // Makes an unlinked copy, opened for reading from its beginning.
  // ResourceExhausted also when the disk has no room for it.
  absl::Status Copy(Done<BlobFile> done);
  // Ends the running work, which answers Unavailable. Idempotent.
  void Stop();

 private:
  // Work that returns a function to call when the next one may begin.
  using Work = std::function<std::function<void()>(const std::stop_token&)>;
  absl::Status Begin(Work work);
  absl::StatusOr<BlobFile> MakeCopy(const std::stop_token& stop) const;

  const std::string path_;
  const std::string copy_path_;
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::jthread thread_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
