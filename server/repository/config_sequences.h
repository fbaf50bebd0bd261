// Reads from a config.pbtxt how sequences of requests are served.
//
// Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"
#include "inference/model_config.pb.h"
#include "server/repository/confined_folder.h"

namespace gpupool::server {

// Returns the time for which a batch waits for requests of other sequences.
uint64_t SequenceDelayMicroseconds(
    const inference::ModelSequenceBatching& batching);

// Returns the options of a config that has sequence_batching, without the
// initial states of files. `max_batch_size` is that of the version. Adds a note
// for each field that has no effect. InvalidArgument has the path of the field,
// its value, what is allowed and what to do.
absl::StatusOr<v1::SequenceOptions> ReadSequences(
    const inference::ModelConfig& config, uint32_t max_batch_size,
    std::vector<std::string>* notes);

// Reads the initial states of files into the options, which ReadSequences has
// returned for the config.
absl::Status ReadInitialStates(const ConfinedFolder& root,
                               absl::string_view model,
                               const inference::ModelConfig& config,
                               v1::SequenceOptions* options);

}  // namespace gpupool::server
