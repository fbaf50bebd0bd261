// Converts YAML to protobuf messages and back by the messages' descriptors. No
// message is named here, so a new field works without a change.
//
// YAML maps as follows (field names are those of the .proto files):
//   message     a mapping; no value (`flatten:`) sets it empty
//   oneof       `adam: {...}` sets that member. The oneof's own name works
//               too: `optimizer: adam` or `optimizer: {adam: {...}}`
//   bare word   where a message is expected, sets its field of that name:
//               `- relu` is `- {relu: {}}`. If the message has a field
//               `file`, the word is its value: `onnx: m.onnx` is
//               `onnx: {file: m.onnx}`
//   repeated    a sequence; one value stands for a sequence of one. If a
//               message has only one field and it is repeated, the sequence
//               may stand for the message
//   enum        its name, in any case
//   bool        true or false
//   integer     whole; in fields whose name ends in _bytes also "64MiB"
//   Duration, Timestamp   "1.5s", RFC 3339
//   map         a mapping
// Unknown and repeated keys, two members of one oneof, and values of the wrong
// kind or out of range are errors. The error names line and column, and what is
// allowed.
//
// Pure; from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class Message;
}

namespace gpupool::client {

// Fills `message`, which must be empty, from one YAML document. `source` names
// the document in errors ("digits.yaml:12:5: ..."). InvalidArgument on any
// error. `message` is then partly filled.
absl::Status YamlToMessage(const std::string& text, absl::string_view source,
                           google::protobuf::Message& message);

// Does the same with a file of at most 16 MiB. "-" reads standard input.
// NotFound if the file does not exist.
absl::Status YamlFileToMessage(const std::string& path,
                               google::protobuf::Message& message);

// Returns the fields that are set, as a document that YamlToMessage converts
// back to an equal message. Ends with a newline.
std::string MessageToYaml(const google::protobuf::Message& message);

}  // namespace gpupool::client
