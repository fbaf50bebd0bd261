// A model that begins with weights of a safetensors file instead of those of
// its own. Names are those of the model's persistents: "<layer>.weight" of
// layers, the initializers' names of ONNX files, which are those of a PyTorch
// module's state_dict unless the exporter folded or renamed them.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"

namespace gpupool::v1 {
class WeightsFile;
}  // namespace gpupool::v1

namespace gpupool::engine {

// Returns the model with the weights of a blob. Floating numbers of any type
// are converted to the types of the model's weights.
//
// Every weight and running statistic must be in the file, in its shape. Tensors
// that the model takes for buffers may be absent and then keep the model's
// numbers. Whole numbers that the model does not have are ignored: PyTorch
// counts batches in "*.num_batches_tracked".
//   INVALID_ARGUMENT  the blob is no safetensors file, or tensors are missing,
//                     unexpected, or of another shape or type; lists at most
//                     ten names of each kind
//   NOT_FOUND, DATA_LOSS  as OpenModelBlob
absl::StatusOr<std::shared_ptr<const ModelSource>> WithWeights(
    std::shared_ptr<const ModelSource> model, const v1::WeightsFile& file,
    const std::string& blob_dir);

}  // namespace gpupool::engine
