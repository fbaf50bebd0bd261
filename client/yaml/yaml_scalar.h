// One YAML scalar to one protobuf value, and back to text. Errors are texts
// without a position; yaml_message.cc adds it. Pure; from any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace google::protobuf {
class FieldDescriptor;
class Message;
}  // namespace google::protobuf

namespace gpupool::client {

// Sets `field` of `message`, or appends to it when it is repeated, from a
// scalar's text. InvalidArgument when the text is no value of its type or out
// of its range. `field` is not a message.
absl::Status SetScalar(absl::string_view text,
                       const google::protobuf::FieldDescriptor& field,
                       google::protobuf::Message& message);

// "a whole number", "true or false", "one of A, B, C".
std::string ExpectedValue(const google::protobuf::FieldDescriptor& field);

// The text of the field's value; `index` is -1 for a singular field. SetScalar
// reads it back to the same value.
std::string ScalarText(const google::protobuf::Message& message,
                       const google::protobuf::FieldDescriptor& field,
                       int index);

}  // namespace gpupool::client
