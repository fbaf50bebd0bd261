#include "client/memory_file.h"

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {

absl::StatusOr<uint64_t> DumpMemory(Client& client,
                                    const v1::DumpMemoryRequest& request,
                                    const std::string& path) {
  const std::string partial = absl::StrCat(path, ".part");
  std::FILE* file = std::fopen(partial.c_str(), "wb");
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", partial));
  }
  absl::Cleanup remove = [&] { std::remove(partial.c_str()); };
  uint64_t bytes = 0;
  bool written = true;
  const absl::Status status = client.StreamMemoryDump(
      request, [&](const v1::DumpMemoryResponse& message) {
        const std::string& chunk = message.chunk();
        written =
            std::fwrite(chunk.data(), 1, chunk.size(), file) == chunk.size();
        bytes += chunk.size();
        return written;
      });
  written = std::fclose(file) == 0 && written;
  if (!status.ok()) return status;
  if (!written) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot write ", partial, ": is the disk full?"));
  }
  if (std::rename(partial.c_str(), path.c_str()) != 0) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path));
  }
  std::move(remove).Cancel();
  return bytes;
}

}  // namespace gpupool::client
