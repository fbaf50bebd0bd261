// Private to server/api: sends a file in messages with a field `chunk` of at
// most kMaxChunkBytes each.
//
// Thread-safety: none; one stream uses it.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/store/blob_store.h"

namespace gpupool::server {

class FileChunks {
 public:
  // Sends the first `bytes` bytes of the file.
  FileChunks(BlobFile file, uint64_t bytes)
      : file_(std::move(file)), left_(bytes) {}

  bool done() const { return left_ == 0; }

  // Returns the next message. Must not be called when done. Returns DATA_LOSS
  // with `if_short` when the file ends early.
  template <typename Message>
  absl::StatusOr<Message> Next(absl::string_view if_short) {
    Message message;
    const absl::Status read = Read(if_short, *message.mutable_chunk());
    if (!read.ok()) return read;
    return message;
  }

 private:
  absl::Status Read(absl::string_view if_short, std::string& chunk);

  BlobFile file_;
  uint64_t left_;
};

}  // namespace gpupool::server
