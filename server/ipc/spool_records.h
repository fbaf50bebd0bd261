// The records of a worker's spool file, which the worker writes
// (server/worker/report_spool.h) and the daemon looks at.
//
//   spool  = record*
//   record = length:32 crc:32 message:length
//
// The numbers are little endian. `crc` is the crc32 of the message.
//
// Pure functions; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "server/ipc/control_channel.h"

namespace google::protobuf {
class MessageLite;
}

namespace gpupool::server {

// Largest message of a record, in bytes. Every report is also sent as a frame,
// so whatever can be sent can be read back.
inline constexpr uint32_t kMaxSpoolRecordBytes = kMaxFrameBytes;

// Returns the record of `message`.
std::string SpoolRecord(const google::protobuf::MessageLite& message);

// Parses the record with which `bytes` begin into `message`, and removes the
// record from them. Returns false, with `bytes` as they were, unless the record
// is complete, undamaged and a message of this type.
bool TakeSpoolRecord(absl::string_view& bytes,
                     google::protobuf::MessageLite* message);

}  // namespace gpupool::server
