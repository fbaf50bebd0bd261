// Printing one result as a table, JSON or YAML.
//
// JSON is protobuf's JSON mapping with the field names of the .proto files
// (snake_case) and every field present, so that keys are stable; 64-bit
// integers are strings, as that mapping says. YAML has the fields that are
// set, and reads back as a job file where the result is a job's spec.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "client/cli/output/console.h"

namespace google::protobuf {
class Message;
}

namespace gpupool::client {

enum class OutputFormat { kTable, kJson, kYaml };

// Returns the JSON of `message`: indented if `pretty`, else on one line without
// a line end.
std::string MessageToJson(const google::protobuf::Message& message,
                          bool pretty);

// Prints `message` in the given format. `print_table` prints it for kTable.
void PrintResult(const Stream& stream, OutputFormat format,
                 const google::protobuf::Message& message,
                 const std::function<void()>& print_table);

}  // namespace gpupool::client
