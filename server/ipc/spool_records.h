// The records of a worker's spool file, which the worker writes
// (server/worker/report_spool.h) and the daemon looks at.
//
//   spool  = record*
//   record = length:32 crc:32 body:length    ; little endian, crc32 of body
//
// Pure functions; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::server {

// Largest body of a record, in bytes.
inline constexpr uint32_t kMaxSpoolRecordBytes = 1u << 20;

// Returns the record of `body`.
std::string SpoolRecord(absl::string_view body);

// Returns the body of the record with which `bytes` begin, and removes the
// record from them. Nothing, with `bytes` as they were, unless the record is
// complete and undamaged.
std::optional<absl::string_view> TakeSpoolRecord(absl::string_view& bytes);

}  // namespace gpupool::server
