// Converts messages between JSON and the wire format, by protobuf's mapping:
//   * field names as in the proto files; camelCase is accepted, too
//   * 64-bit integers as strings, bytes in base64, enums by name
//   * answers have every field without presence, even at its default
//
// Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace google::protobuf {
class Descriptor;
}  // namespace google::protobuf

namespace gpupool::server {

// Returns a message of this type in wire format. An empty text is an empty
// message. InvalidArgument has the parser's words and names the type.
absl::StatusOr<std::string> WireOfJson(const google::protobuf::Descriptor& type,
                                       const std::string& json);

// Returns a message as JSON on one line. Internal when `wire` is no message of
// this type.
absl::StatusOr<std::string> JsonOfWire(const google::protobuf::Descriptor& type,
                                       const std::string& wire);

}  // namespace gpupool::server
