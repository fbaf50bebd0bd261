// Reads files before they are uploaded. The digest of a large file takes
// minutes, so what is known of it without reading is checked first.
//
// Thread-safety: from any thread. The client must outlive the calls.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "client/files/local_file.h"

namespace gpupool::client {

class Client;

// Files of fewer bytes are read at once: no progress is told, and the server
// checks their size when they are announced.
inline constexpr uint64_t kLongFileBytes = uint64_t{64} << 20;

struct FileSize {
  std::string name;    // for messages
  uint64_t bytes = 0;  // 0: unknown
};

// Returns the size of a file, or 0 if it cannot be found out.
FileSize SizeOfFile(const std::string& path);

// Checks the files of a dataset against the limits of the server, which it asks
// if the files are long. RESOURCE_EXHAUSTED, with the largest file, if they are
// too large; UNAVAILABLE if the server is. Other answers are left to the
// upload, and so are servers that tell no limit.
absl::Status CheckDatasetSize(Client& client, absl::Span<const FileSize> files);

// Checks files of a model in the same way, each by itself.
absl::Status CheckModelFileSizes(Client& client,
                                 absl::Span<const FileSize> files);

// Returns the digest and size of what `chunks` reads, as DescribeChunks does.
// Tells ClientOptions::upload_reading how far it is in a long file. CANCELLED
// when ClientOptions::upload_stop is requested.
absl::StatusOr<FileFacts> DescribeForUpload(const Client& client,
                                            const FileSize& file,
                                            const ChunkReader& chunks);

// Returns the same for a file, with its path as its name.
absl::StatusOr<FileFacts> DescribeForUpload(const Client& client,
                                            const std::string& path);

}  // namespace gpupool::client
