// A device's memory as a file for PyTorch's memory tools.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "client/client.h"

namespace gpupool::client {

enum class DumpForm {
  kWhole,     // segments and history, for pytorch.org/memory_viz
  kSegments,  // the list of segments, for the command line of any PyTorch
};

// Writes the file and returns its bytes. The file appears complete or not at
// all. ResourceExhausted if the disk is full, else the server's errors.
absl::StatusOr<uint64_t> DumpMemory(Client& client,
                                    const v1::DumpMemoryRequest& request,
                                    const std::string& path,
                                    DumpForm form = DumpForm::kWhole);

}  // namespace gpupool::client
