// An ONNX model that was read and checked: it is within limits, its names are
// resolved and the data of every tensor is there. Operators are not checked.
//
// Thread-safety: immutable. Owns the message. Pointers into it live as long as
// the object.
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
  // Parses a serialized ModelProto.
  //   INVALID_ARGUMENT  malformed or over a limit; takes time and memory
  //                     proportional to `bytes`
  static absl::StatusOr<std::shared_ptr<const OnnxFile>> Parse(
      absl::string_view bytes, ExternalFiles external);
  // Does the same with a file, whose large initializers stay in the mapping.
  static absl::StatusOr<std::shared_ptr<const OnnxFile>> OfMapped(
      MappedFile mapped, ExternalFiles external);
  // Parses the file at `path`, with external data beneath its folder. NOT_FOUND
  // without the file.
  static absl::StatusOr<std::shared_ptr<const OnnxFile>> Open(
      const std::string& path);
  ~OnnxFile();

  const onnx::ModelProto& model() const { return *model_; }
  const ExternalFiles& external() const { return external_; }
  // Returns the size of the parsed file without external data.
  uint64_t bytes() const { return bytes_; }

  // Returns nullptr when the model has no function of that name. "ai.onnx" is
  // "".
  const onnx::FunctionProto* function(absl::string_view domain,
                                      absl::string_view name) const;

  // Returns the stored name of an initializer, in the graph or in a subgraph.
  // Stored names are unique in the file: the first initializer of a name keeps
  // it, later ones are "<name>#2" and so on. Returns "" for another tensor.
  absl::string_view stored_name(const onnx::TensorProto& tensor) const;
  // Returns the initializer with this stored name, or nullptr.
  const onnx::TensorProto* stored(absl::string_view name) const;
  // Returns why the initializer with this stored name is taken for a buffer,
  // which is not trained by default (buffers.h). Returns "" for others.
  absl::string_view buffer_reason(absl::string_view name) const;

 private:
  explicit OnnxFile(ExternalFiles external);
  // Parses bytes that CheckWire accepted.
  absl::Status ParseChecked(absl::string_view bytes);
  absl::Status Index();

  std::unique_ptr<onnx::ModelProto> model_;
  const ExternalFiles external_;
  absl::flat_hash_map<std::string, const onnx::FunctionProto*> functions_;
  absl::flat_hash_map<std::string, const onnx::TensorProto*> stored_;
  absl::flat_hash_map<const onnx::TensorProto*, std::string> stored_names_;
  absl::flat_hash_map<std::string, std::string> buffers_;  // to reasons
  uint64_t bytes_ = 0;
};

}  // namespace gpupool::engine::onnx_import
