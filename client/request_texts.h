// Checks the texts of a request before it is sent. The server cannot parse a
// request whose strings are not UTF-8, so it cannot say what is wrong with it.
//
// Thread-safety: pure; from any thread.
#pragma once

#include "absl/status/status.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace gpupool::client {

// Returns INVALID_ARGUMENT, with the field and its escaped bytes, if a string
// of the message, or of a message in it, is not UTF-8. Bytes fields may hold
// anything.
absl::Status CheckTexts(const google::protobuf::Message& message);

}  // namespace gpupool::client
