#include "server/http/rest/plain_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/escaping.h"
#include "nlohmann/json.hpp"

namespace gpupool::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using PlainValue = nlohmann::ordered_json;

// Position of a field that is not repeated.
constexpr int kSingle = -1;

PlainValue ObjectOf(const Message& message);

PlainValue TextOf(const Message& message, const FieldDescriptor& field,
                  int index) {
  const auto& reflection = *message.GetReflection();
  const std::string text =
      index == kSingle ? reflection.GetString(message, &field)
                       : reflection.GetRepeatedString(message, &field, index);
  return field.type() == FieldDescriptor::TYPE_BYTES ? absl::Base64Escape(text)
                                                     : text;
}

PlainValue EnumOf(const Message& message, const FieldDescriptor& field,
                  int index) {
  const auto& reflection = *message.GetReflection();
  return (index == kSingle ? reflection.GetEnum(message, &field)
                           : reflection.GetRepeatedEnum(message, &field, index))
      ->name();
}

// Returns the value of the field, or its element at `index`.
PlainValue ValueOf(const Message& message, const FieldDescriptor& field,
                   int index) {
  const auto& reflection = *message.GetReflection();
  const bool single = index == kSingle;
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return single ? reflection.GetInt32(message, &field)
                    : reflection.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return single ? reflection.GetInt64(message, &field)
                    : reflection.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return single ? reflection.GetUInt32(message, &field)
                    : reflection.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return single ? reflection.GetUInt64(message, &field)
                    : reflection.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return single ? reflection.GetDouble(message, &field)
                    : reflection.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return single ? reflection.GetFloat(message, &field)
                    : reflection.GetRepeatedFloat(message, &field, index);
    case FieldDescriptor::CPPTYPE_BOOL:
      return single ? reflection.GetBool(message, &field)
                    : reflection.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumOf(message, field, index);
    case FieldDescriptor::CPPTYPE_STRING:
      return TextOf(message, field, index);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ObjectOf(
          single ? reflection.GetMessage(message, &field)
                 : reflection.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

PlainValue MapOf(const Message& message, const FieldDescriptor& field) {
  const auto& reflection = *message.GetReflection();
  PlainValue object = PlainValue::object();
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    const Message& entry = reflection.GetRepeatedMessage(message, &field, i);
    const auto& type = *entry.GetDescriptor();
    const PlainValue key = ValueOf(entry, *type.map_key(), kSingle);
    object[key.is_string() ? key.get<std::string>() : key.dump()] =
        ValueOf(entry, *type.map_value(), kSingle);
  }
  return object;
}

PlainValue ListOf(const Message& message, const FieldDescriptor& field) {
  PlainValue list = PlainValue::array();
  for (int i = 0; i < message.GetReflection()->FieldSize(message, &field);
       ++i) {
    list.push_back(ValueOf(message, field, i));
  }
  return list;
}

PlainValue ObjectOf(const Message& message) {
  PlainValue object = PlainValue::object();
  const auto& type = *message.GetDescriptor();
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.is_map()) {
      object[field.name()] = MapOf(message, field);
    } else if (field.is_repeated()) {
      object[field.name()] = ListOf(message, field);
    } else if (!field.has_presence() ||
               message.GetReflection()->HasField(message, &field)) {
      object[field.name()] = ValueOf(message, field, kSingle);
    }
  }
  return object;
}

}  // namespace

std::string PlainJson(const Message& message) {
  return ObjectOf(message).dump(-1, ' ', false,
                                PlainValue::error_handler_t::replace);
}

}  // namespace gpupool::server
