#include "client/memory_file.h"

#include "client/files/partial_file.h"

namespace gpupool::client {

absl::StatusOr<uint64_t> DumpMemory(Client& client,
                                    const v1::DumpMemoryRequest& request,
                                    const std::string& path) {
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  absl::Status status = client.StreamMemoryDump(
      request, [&](const v1::DumpMemoryResponse& message) {
        return file->Append(message.chunk());
      });
  if (status.ok()) status = file->Close();
  if (status.ok()) status = file->Replace();
  if (!status.ok()) return status;
  return file->bytes();
}

}  // namespace gpupool::client
