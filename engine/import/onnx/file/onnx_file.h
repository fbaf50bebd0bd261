// An ONNX model that was read and found sound: within limits, names resolved,
// every tensor's data there. Operators are not looked at.
//
// Immutable and shared; usable from any thread. Owns the message; pointers
// into it live as long as the object.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/import/onnx/file/external_files.h"

namespace onnx {
class FunctionProto;
class ModelProto;
class TensorProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

class OnnxFile {
 public:
  // `bytes` is a serialized ModelProto.
  //   INVALID_ARGUMENT  malformed or over a limit; found within a time and
  //                     memory proportional to `bytes`
  static absl::StatusOr<std::shared_ptr<const OnnxFile>> Parse(
      absl::string_view bytes, ExternalFiles external);
  // The file at `path`; external data beneath its folder. NotFound.
  static absl::StatusOr<std::shared_ptr<const OnnxFile>> Open(
      const std::string& path);
  ~OnnxFile();

  const onnx::ModelProto& model() const { return *model_; }
  const ExternalFiles& external() const { return external_; }
  // Size of the file that it was parsed from, external data not counted.
  uint64_t bytes() const { return bytes_; }

  // nullptr when the model has none of that name. "ai.onnx" is "".
  const onnx::FunctionProto* function(absl::string_view domain,
                                      absl::string_view name) const;

  // Initializers of the graph and of all subgraphs under names that are
  // unique in the file: the first of a name keeps it, later ones are
  // "<name>#2" and so on. The name of none is "".
  absl::string_view stored_name(const onnx::TensorProto& tensor) const;
  // nullptr when there is none.
  const onnx::TensorProto* stored(absl::string_view name) const;

 private:
  explicit OnnxFile(ExternalFiles external);
  absl::Status Index();

  std::unique_ptr<onnx::ModelProto> model_;
  const ExternalFiles external_;
  absl::flat_hash_map<std::string, const onnx::FunctionProto*> functions_;
  absl::flat_hash_map<std::string, const onnx::TensorProto*> stored_;
  absl::flat_hash_map<const onnx::TensorProto*, std::string> stored_names_;
  uint64_t bytes_ = 0;
};

}  // namespace gpupool::engine::onnx_import
