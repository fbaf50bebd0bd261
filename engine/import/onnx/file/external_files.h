// The files beside an ONNX model that hold tensor data. A model names them by
// a relative location; what it may reach is decided here: files beneath one
// folder (no absolute path, no "..", no symlink), or an explicit list.
//
// Immutable; usable from any thread. Files are opened for each read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::engine::onnx_import {

class ExternalFiles {
 public:
  // None at all.
  ExternalFiles() = default;
  // Everything beneath `folder`.
  static ExternalFiles Beneath(std::string folder);
  // Location -> path of the file that stands for it.
  static ExternalFiles Listed(
      absl::flat_hash_map<std::string, std::string> paths);

  // Bytes of the file.
  //   INVALID_ARGUMENT  the location leaves the folder, or no such file is
  //                     there; names the location
  absl::StatusOr<uint64_t> Size(absl::string_view location) const;
  // Fills `to` from `offset` on. InvalidArgument as Size; DataLoss when the
  // file ends before.
  absl::Status Read(absl::string_view location, uint64_t offset,
                    absl::Span<std::byte> to) const;

 private:
  // An open descriptor, to be closed by the caller.
  absl::StatusOr<int> OpenLocation(absl::string_view location) const;

  std::string folder_;  // empty: none
  absl::flat_hash_map<std::string, std::string> paths_;
};

}  // namespace gpupool::engine::onnx_import
