// A file on this machine, read in chunks for uploads, and its digest.
//
// Thread-safety: one thread for each object. Holds no bytes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpupool::client {

struct FileFacts {
  uint64_t bytes = 0;
  std::string sha256;  // 64 lower-case hex digits
};

class LocalFile {
 public:
  // Opens the file. NotFound if it does not exist.
  static absl::StatusOr<LocalFile> Open(const std::string& path);

  // Reads the next bytes, at most 1 MiB. `chunk` is empty at the end.
  // InvalidArgument if the file is a folder.
  absl::Status ReadChunk(std::string& chunk);
  // Goes to the byte at `place` from the beginning, at most the size.
  absl::Status Seek(uint64_t place);
  const std::string& path() const { return path_; }

 private:
  using Handle = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  LocalFile(std::string path, Handle handle)
      : path_(std::move(path)), handle_(std::move(handle)) {}

  std::string path_;
  Handle handle_;
};

// Fills in the next bytes of a file, or none at the end.
using ChunkReader = std::function<absl::Status(std::string& chunk)>;

// Reads everything and returns its digest and size. InvalidArgument, with
// `name`, if there are no bytes.
absl::StatusOr<FileFacts> DescribeChunks(const std::string& name,
                                         const ChunkReader& read_chunk);

// Reads the whole file and returns its digest and size. NotFound if it does not
// exist, InvalidArgument if it is empty.
absl::StatusOr<FileFacts> DescribeFile(const std::string& path);

}  // namespace gpupool::client
