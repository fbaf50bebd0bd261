// The external files of an ONNX model, which hold tensor data. A model names
// them by a relative location. This class restricts what a model can read:
// either files beneath one folder (no absolute path, no "..", no symlink) or an
// explicit list.
//
// Thread-safety: immutable once it is set up. Files are opened for each read,
// except for the model itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/data/mapped_file.h"

namespace gpupool::engine::onnx_import {

// The location of the model file itself, for data that were cut out of it
// (wire_cut.h). A file that names it reads its own bytes.
inline constexpr absl::string_view kModelLocation = "the model itself";

class ExternalFiles {
 public:
  // Allows no file.
  ExternalFiles() = default;
  // Allows everything beneath `folder`.
  static ExternalFiles Beneath(std::string folder);
  // Allows the given locations. `paths` maps a location to a path.
  static ExternalFiles Listed(
      absl::flat_hash_map<std::string, std::string> paths);

  // Allows reads of the model itself.
  void SetModel(std::shared_ptr<const MappedFile> model) {
    model_ = std::move(model);
  }

  // Returns the bytes of a file.
  //   INVALID_ARGUMENT  the location leaves the folder or does not exist; names
  //   it
  absl::StatusOr<uint64_t> Size(absl::string_view location) const;
  // Fills `to` with the bytes from `offset` on. INVALID_ARGUMENT as Size.
  // DATA_LOSS when the file ends too early.
  absl::Status Read(absl::string_view location, uint64_t offset,
                    absl::Span<std::byte> to) const;

 private:
  // Returns an open descriptor, which the caller must close.
  absl::StatusOr<int> OpenLocation(absl::string_view location) const;
  absl::Status ReadModel(uint64_t offset, absl::Span<std::byte> to) const;

  std::string folder_;  // empty: no folder is allowed
  absl::flat_hash_map<std::string, std::string> paths_;
  std::shared_ptr<const MappedFile> model_;  // null: not allowed
};

}  // namespace gpupool::engine::onnx_import
