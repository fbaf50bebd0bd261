#include "server/http/json_messages.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>

#include <memory>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

std::unique_ptr<google::protobuf::Message> NewMessage(
    const google::protobuf::Descriptor& type) {
  return std::unique_ptr<google::protobuf::Message>(
      google::protobuf::MessageFactory::generated_factory()
          ->GetPrototype(&type)
          ->New());
}

}  // namespace

absl::StatusOr<std::string> WireOfJson(const google::protobuf::Descriptor& type,
                                       const std::string& json) {
  const auto message = NewMessage(type);
  if (!json.empty()) {
    const auto parsed =
        google::protobuf::util::JsonStringToMessage(json, message.get());
    if (!parsed.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the body is no ", type.full_name(),
                       " in JSON: ", std::string(parsed.message())));
    }
  }
  return message->SerializeAsString();
}

absl::StatusOr<std::string> JsonOfWire(const google::protobuf::Descriptor& type,
                                       const std::string& wire) {
  const auto message = NewMessage(type);
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  options.preserve_proto_field_names = true;
  std::string json;
  if (message->ParseFromString(wire) &&
      google::protobuf::util::MessageToJsonString(*message, &json, options)
          .ok()) {
    return json;
  }
  return absl::InternalError(
      absl::StrCat("an answer of type ", type.full_name(), " of ", wire.size(),
                   " bytes cannot be written as JSON; call by gRPC"));
}

}  // namespace gpupool::server
