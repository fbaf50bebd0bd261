#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/time_util.h>
#include <yaml-cpp/yaml.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "client/yaml/yaml_message.h"
#include "client/yaml/yaml_scalar.h"

namespace gpupool::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns whether YAML would read the text as something other than a string.
bool NeedsQuotes(const std::string& text) {
  const std::string lower = absl::AsciiStrToLower(text);
  for (const char* word : {"", "~", "null", "true", "false", "yes", "no", "on",
                           "off", "y", "n", ".nan", ".inf", "-.inf"}) {
    if (lower == word) return true;
  }
  double number = 0;
  return absl::SimpleAtod(text, &number);
}

void WriteMessage(const Message& message, YAML::Emitter& out);

void WriteValue(const Message& message, const FieldDescriptor& field, int index,
                YAML::Emitter& out) {
  const Reflection& reflection = *message.GetReflection();
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    WriteMessage(index < 0
                     ? reflection.GetMessage(message, &field)
                     : reflection.GetRepeatedMessage(message, &field, index),
                 out);
    return;
  }
  const std::string text = ScalarText(message, field, index);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
      NeedsQuotes(text)) {
    out << YAML::DoubleQuoted;
  }
  out << text;
}

void WriteMap(const Message& message, const FieldDescriptor& field,
              YAML::Emitter& out) {
  const Reflection& reflection = *message.GetReflection();
  out << YAML::BeginMap;
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    out << YAML::Key;
    WriteValue(entry, *field.message_type()->map_key(), -1, out);
    out << YAML::Value;
    WriteValue(entry, *field.message_type()->map_value(), -1, out);
  }
  out << YAML::EndMap;
}

void WriteRepeated(const Message& message, const FieldDescriptor& field,
                   YAML::Emitter& out) {
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) out << YAML::Flow;
  out << YAML::BeginSeq;
  const int size = message.GetReflection()->FieldSize(message, &field);
  for (int i = 0; i < size; ++i) WriteValue(message, field, i, out);
  out << YAML::EndSeq;
}

void WriteMessage(const Message& message, YAML::Emitter& out) {
  using google::protobuf::util::TimeUtil;
  const std::string& type = message.GetDescriptor()->full_name();
  if (type == "google.protobuf.Duration") {
    google::protobuf::Duration duration;
    duration.CopyFrom(message);
    out << TimeUtil::ToString(duration);
    return;
  }
  if (type == "google.protobuf.Timestamp") {
    google::protobuf::Timestamp time;
    time.CopyFrom(message);
    out << TimeUtil::ToString(time);
    return;
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  if (fields.empty()) out << YAML::Flow;
  out << YAML::BeginMap;
  for (const FieldDescriptor* field : fields) {
    out << YAML::Key << field->name() << YAML::Value;
    if (field->is_map()) {
      WriteMap(message, *field, out);
    } else if (field->is_repeated()) {
      WriteRepeated(message, *field, out);
    } else {
      WriteValue(message, *field, -1, out);
    }
  }
  out << YAML::EndMap;
}

}  // namespace

std::string MessageToYaml(const Message& message) {
  YAML::Emitter out;
  WriteMessage(message, out);
  return std::string(out.c_str()) + "\n";
}

}  // namespace gpupool::client
