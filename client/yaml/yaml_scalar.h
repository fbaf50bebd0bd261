// Converts one YAML scalar to one protobuf value and back. Errors have no
// position; yaml_message.cc adds it. Pure; from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace gpupool::client {

// Sets `field` of `message` from a scalar's text, or appends to it if it is
// repeated. `field` must not be a message. InvalidArgument if the text is not a
// value of its type or is out of its range.
absl::Status SetScalar(absl::string_view text,
                       const google::protobuf::FieldDescriptor& field,
                       google::protobuf::Message& message);

// Returns "a whole number", "true or false", "one of A, B, C".
std::string ExpectedValue(const google::protobuf::FieldDescriptor& field);

// Returns the text of the field's value, which SetScalar reads back to the same
// value. `index` is -1 for a singular field.
std::string ScalarText(const google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor& field,
                       int index);

}  // namespace gpupool::client
