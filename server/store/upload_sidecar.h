// Private to server/store: the facts of a partial upload, in a small file
// beside its bytes. It is one line:
//
//   sidecar = "gpupool-upload 1 " facts "\n"               of no tenant
//           / "gpupool-upload 2 " facts " " tenant "\n"
//   facts   = sha256 " " total " " durable " " boot
//   sha256  = 64 lower-case hex digits, of the whole file
//   total   = decimal bytes of the whole file, at least 1
//   durable = decimal bytes that were synced, at most total
//   boot    = id of the machine's boot in which the line was written
//   tenant  = name of the uploader's tenant, without a space
//
// Thread-safety: any thread. Two threads must not write the same file.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

struct UploadSidecar {
  std::string sha256;
  uint64_t total_bytes = 0;
  uint64_t durable_bytes = 0;
  std::string boot_id;
  std::string tenant = {};  // empty: none
};

// Returns the id of the machine's present boot, or "unknown".
std::string MachineBootId();

// Returns the line of a sidecar.
std::string SidecarText(const UploadSidecar& sidecar);

// Parses a line. DataLoss for any other text.
absl::StatusOr<UploadSidecar> ParseSidecar(absl::string_view text);

// Reads the file. NotFound if there is none, DataLoss if it is damaged.
absl::StatusOr<UploadSidecar> ReadSidecar(const std::string& path);

// Writes the file: the old or the new line survives a power cut.
absl::Status WriteSidecar(const std::string& path,
                          const UploadSidecar& sidecar);

}  // namespace gpupool::server
