#include "client/cli/output/output.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <ostream>

#include "client/yaml/yaml_message.h"

namespace gpupool::client {

std::string MessageToJson(const google::protobuf::Message& message,
                          bool pretty) {
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = pretty;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string text;
  const auto status =
      google::protobuf::util::MessageToJsonString(message, &text, options);
  // The function fails only if a text is not UTF-8.
  return status.ok() ? text : "{\"error\":\"a text is not UTF-8\"}";
}

void PrintResult(const Stream& stream, OutputFormat format,
                 const google::protobuf::Message& message,
                 const std::function<void()>& print_table) {
  switch (format) {
    case OutputFormat::kTable:
      print_table();
      return;
    case OutputFormat::kJson:
      *stream.stream << MessageToJson(message, true);
      return;
    case OutputFormat::kYaml:
      *stream.stream << MessageToYaml(message);
      return;
  }
}

}  // namespace gpupool::client
