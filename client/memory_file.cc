#include "client/memory_file.h"

#include "client/files/partial_file.h"
#include "client/files/snapshot_segments.h"

namespace gpupool::client {

absl::StatusOr<uint64_t> DumpMemory(Client& client,
                                    const v1::DumpMemoryRequest& request,
                                    const std::string& path, DumpForm form) {
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  std::string whole;
  absl::Status status = client.StreamMemoryDump(
      request, [&](const v1::DumpMemoryResponse& message) {
        if (form == DumpForm::kWhole) return file->Append(message.chunk());
        whole += message.chunk();
        return true;
      });
  if (status.ok() && form == DumpForm::kSegments) {
    const absl::StatusOr<std::string> segments = SegmentsOf(whole);
    status = segments.status();
    if (status.ok()) file->Append(*segments);
  }
  if (status.ok()) status = file->Close();
  if (status.ok()) status = file->Replace();
  if (!status.ok()) return status;
  return file->bytes();
}

}  // namespace gpupool::client
