// Private to server/http: messages as JSON, in the form that the REST protocol
// gives them. It differs from protobuf's own mapping (json_messages.h) in one
// point: 64-bit integers are numbers, not strings.
//
// Pure functions.
#pragma once

#include <string>

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace gpupool::server {

// Returns the message on one line. Field names are those of the proto file,
// enums are names, bytes are base64. Fields without presence are there at their
// default, too. Bytes that are not UTF-8 are replaced.
std::string PlainJson(const google::protobuf::Message& message);

}  // namespace gpupool::server
