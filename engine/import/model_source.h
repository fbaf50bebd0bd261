// A model that programs can be built from: a chain of layers or an ONNX file.
// Whoever plans, trains or serves knows models only through this door.
//
// Immutable, hence usable from any thread. Graphs do not refer to their
// source, but stored weights are read through it.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/import/layer_spec.h"
#include "engine/import/served_sizes.h"

namespace gpupool::v1 {
class ModelSpec;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The value of a persistent in host memory.
struct WeightTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  absl::Span<const std::byte> bytes;
};

class ModelSource {
 public:
  virtual ~ModelSource() = default;

  // Parses what the spec names. Files are blobs of `blob_dir`.
  //   INVALID_ARGUMENT  malformed, or over a limit (named)
  //   UNIMPLEMENTED     operators that are not supported, all of them listed
  //                     by node and operator
  //   NOT_FOUND         a blob is missing
  //   DATA_LOSS         a blob's digest differs
  static absl::StatusOr<std::shared_ptr<const ModelSource>> Open(
      const v1::ModelSpec& spec, const std::string& blob_dir);

  // The forward graph. InvalidArgument begins with the layer's or node's name.
  virtual absl::StatusOr<ModelGraph> Build(
      const BuildOptions& options) const = 0;

  // What serving varies. Build wants a size of each of these dimensions, and
  // numbers of each of these inputs: InvalidArgument names one that lacks.
  virtual const ServedSizes& served() const = 0;

  // Copies the value of a persistent whose initializer is kStored; `to` has
  // exactly its bytes. NotFound for another name.
  virtual absl::Status ReadStored(absl::string_view name,
                                  absl::Span<std::byte> to) const = 0;

  // The model as a serialized ONNX file with these values of its persistents;
  // with "input.scale" and "input.shift" among them its input is scaled.
  // InvalidArgument when it is larger than such a file can be.
  virtual absl::StatusOr<std::string> ExportOnnx(
      const std::vector<WeightTensor>& weights) const = 0;
};

// `options` with the largest sizes that are served and the numbers that are
// planned with: what a graph needs of which only the weights matter.
BuildOptions AtLargestSizes(const ModelSource& source, BuildOptions options);

}  // namespace gpupool::engine
