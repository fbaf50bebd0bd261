#include "server/api/validation/label_check.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "engine/base/refuse.h"

namespace gpupool::server {

absl::Status CheckLabels(absl::string_view field,
                         const v1::ServingOptions& options) {
  if (options.labels_size() > kMaxLabelledOutputs) {
    return engine::Refuse(field, ".labels has ", options.labels_size(),
                          " entries; the limit is ", kMaxLabelledOutputs);
  }
  uint64_t bytes = 0;
  absl::flat_hash_set<std::string> outputs;
  for (const v1::OutputLabels& labels : options.labels()) {
    if (!outputs.insert(labels.output()).second) {
      return engine::Refuse(field, ".labels has the output '", labels.output(),
                            "' twice; write all its labels into one entry");
    }
    if (labels.labels_size() > kMaxLabels) {
      return engine::Refuse(field, ".labels of output '", labels.output(),
                            "' has ", labels.labels_size(),
                            " labels; the limit is ", kMaxLabels);
    }
    for (const std::string& label : labels.labels()) bytes += label.size();
  }
  if (bytes <= kMaxLabelBytes) return absl::OkStatus();
  return engine::Refuse(field, ".labels has ", bytes,
                        " bytes of labels, the limit is ", kMaxLabelBytes,
                        "; shorten them");
}

}  // namespace gpupool::server
