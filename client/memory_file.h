// A device's memory as a file for PyTorch's memory tools.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

enum class DumpForm {
  kWhole,     // segments and history, for pytorch.org/memory_viz
  kSegments,  // the list of segments, for the command line of any PyTorch
};

struct DumpedMemory {
  uint64_t bytes = 0;  // size of the file
  // The number of segments in the file, if the list was cut at
  // kMaxSegmentsBytes (snapshot_segments.h). Nothing if the file has all.
  std::optional<uint64_t> cut_after;
};

// Writes the file. It appears complete or not at all. ResourceExhausted if the
// disk is full, else the server's errors.
absl::StatusOr<DumpedMemory> DumpMemory(Client& client,
                                        const v1::DumpMemoryRequest& request,
                                        const std::string& path,
                                        DumpForm form = DumpForm::kWhole);

}  // namespace gpupool::client
