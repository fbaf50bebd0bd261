// A model that programs can be built from: layers, a name that stands
// for layers, or an ONNX file.
// Planning, training and serving see models only through this class.
//
// Thread-safety: immutable. Graphs do not refer to their source, but stored
// weights are read through it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/model/layer_spec.h"
#include "engine/model/served_sizes.h"

namespace gpupool::v1 {
class ModelSpec;
class Plan;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The contents of a persistent value in host memory.
struct WeightTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  absl::Span<const std::byte> bytes;
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // Parses the model that the spec names, with its weights. Files are blobs of
  // `blob_dir`.
  //   INVALID_ARGUMENT  malformed, or over a limit; names it
  //   UNIMPLEMENTED     unsupported operators; lists all by node and operator
  //   NOT_FOUND         a blob is missing
  //   DATA_LOSS         a blob's digest differs
  static absl::StatusOr<std::shared_ptr<const ModelSource>> Open(
      const v1::ModelSpec& spec, const std::string& blob_dir);

  // Builds the forward graph. INVALID_ARGUMENT begins with the layer's or
  // node's name.
  virtual absl::StatusOr<ModelGraph> Build(
      const BuildOptions& options) const = 0;

  // Returns the sizes and inputs that vary while serving. Build needs a size
  // for each of these dimensions and numbers for each of these inputs.
  // INVALID_ARGUMENT names a missing one.
  virtual const ServedSizes& served() const = 0;

  // Checks that the spec's options name only what the model has. Call it for a
  // model that is new: stored ones may come from a version that did not check,
  // and wrong names do nothing. INVALID_ARGUMENT lists the names that exist.
  virtual absl::Status CheckNames() const { return absl::OkStatus(); }

  // Returns the plan of a model of texts, which has no graph for a device:
  // Build fails. Null for all other models.
  virtual const v1::Plan* text_plan() const { return nullptr; }

  // Returns whether a file stores floating weights in 16 bits.
  virtual bool stores_halves() const { return false; }

  // Copies a persistent value whose initializer is kStored. `to` must have its
  // size in bytes. Numbers that the file has in 16 bits are also given as
  // float32. NOT_FOUND for another name.
  virtual absl::Status ReadStored(absl::string_view name,
                                  absl::Span<std::byte> to) const = 0;

  // Returns the model as a serialized ONNX file with these values of its
  // persistents. If "input.scale" and "input.shift" are among them, the file
  // scales its input. Numbers that the file has in 16 bits are rounded to them.
  // INVALID_ARGUMENT when the model is too large for such a file, or when a
  // number is too large for 16 bits.
  virtual absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>& weights) const = 0;
};

// Returns `options` with the largest served sizes and the numbers for planning.
// Enough for a graph of which only the weights are read.
BuildOptions AtLargestSizes(const ModelSource& source, BuildOptions options);

}  // namespace gpupool::engine
