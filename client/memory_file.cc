#include "client/memory_file.h"

#include "client/files/partial_file.h"
#include "client/files/snapshot_segments.h"

namespace gpupool::client {

absl::StatusOr<DumpedMemory> DumpMemory(Client& client,
                                        const v1::DumpMemoryRequest& request,
                                        const std::string& path,
                                        DumpForm form) {
  absl::StatusOr<PartialFile> file = PartialFile::Create(path);
  if (!file.ok()) return file.status();
  SegmentsReader reader;
  absl::Status status = client.StreamMemoryDump(
      request, [&](const v1::DumpMemoryResponse& message) {
        return form == DumpForm::kWhole ? file->Append(message.chunk())
                                        : reader.Append(message.chunk());
      });
  DumpedMemory dumped;
  if (status.ok() && form == DumpForm::kSegments) {
    const absl::StatusOr<SegmentList> list = reader.Finish();
    status = list.status();
    if (status.ok()) file->Append(list->pickle);
    if (status.ok() && list->is_cut) dumped.cut_after = list->segments;
  }
  if (status.ok()) status = file->Close();
  if (status.ok()) status = file->Replace();
  if (!status.ok()) return status;
  dumped.bytes = file->bytes();
  return dumped;
}

}  // namespace gpupool::client
