#include "server/api/transfer/file_chunks.h"

#include <unistd.h>

#include <algorithm>

#include "server/api/validation/convert.h"

namespace gpupool::server {

absl::Status FileChunks::Read(absl::string_view if_short, std::string& chunk) {
  chunk.resize(std::min<uint64_t>(left_, kMaxChunkBytes));
  const ssize_t count = ::read(file_.fd(), chunk.data(), chunk.size());
  if (count <= 0) return absl::DataLossError(if_short);
  chunk.resize(static_cast<size_t>(count));
  left_ -= chunk.size();
  return absl::OkStatus();
}

}  // namespace gpupool::server
