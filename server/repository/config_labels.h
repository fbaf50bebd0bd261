// Reads the files of labels that a config.pbtxt names.
//
// Any thread.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/model.pb.h"
#include "inference/model_config.pb.h"
#include "server/repository/confined_folder.h"

namespace gpupool::server {

// Reads the label_filename of each output in the folder `model` of `root` into
// the options. A line of a file is the label of the class with the index of the
// line, from 0. The end of a line is "\n" or "\r\n". InvalidArgument has the
// path of the field, the file, and what to do:
//   * a name that leads out of the folder, or a file that cannot be read
//   * a file that is empty, larger than the limit of labels or has too many
//     lines
//   * a line that is not UTF-8
absl::Status ReadLabels(const ConfinedFolder& root, absl::string_view model,
                        const inference::ModelConfig& config,
                        v1::ServingOptions* options);

}  // namespace gpupool::server
