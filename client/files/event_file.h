// A file of a job's curves that TensorBoard reads. It grows while TensorBoard
// reads it.
//
// Thread-safety: one thread for each object.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/files/event_record.h"

namespace gpupool::client {

class EventFile {
 public:
  // Creates "events.out.tfevents.SECONDS.HOST.JOB" in the folder, and the
  // folder if there is none. The numbers of this file replace those of earlier
  // files of the job, once it has any. FailedPrecondition if the folder has
  // events of anything else, since TensorBoard draws a folder as one run.
  // Otherwise the error of the system, with the folder and a remedy.
  static absl::StatusOr<EventFile> Create(const std::string& folder,
                                          uint64_t job);

  // Appends the numbers of one step. Readers see them at once.
  absl::Status Append(const ScalarEvent& event);

  const std::string& path() const { return path_; }

 private:
  using Handle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  EventFile(std::string path, Handle handle)
      : path_(std::move(path)), handle_(std::move(handle)) {}
  absl::Status Write(absl::string_view record);

  std::string path_;
  Handle handle_;
  bool begun_ = false;  // has numbers
};

}  // namespace gpupool::client
