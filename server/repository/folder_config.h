// Reads the config.pbtxt of a model's folder.
//
// Pure but for the file system; any thread.
#pragma once

#include "absl/status/statusor.h"
#include "inference/model_config.pb.h"
#include "server/repository/confined_folder.h"
#include "server/repository/folder_scan.h"

namespace gpupool::server {

// Returns the config; empty where there is no file. InvalidArgument: it cannot
// be read, or has a field that is not supported.
absl::StatusOr<inference::ModelConfig> ReadFolderConfig(
    const ConfinedFolder& root, const ModelFolder& model);

}  // namespace gpupool::server
