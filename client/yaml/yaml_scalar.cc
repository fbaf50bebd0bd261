#include "client/yaml/yaml_scalar.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text/quote.h"
#include "client/text/suggest.h"
#include "client/text/units.h"
#include "client/text/utf8.h"
#include "client/yaml/precision_words.h"

namespace gpupool::client {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns the values as files write them: "highest" for HIGHEST.
std::vector<std::string> EnumNames(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->number() == 0) continue;
    names.push_back(absl::AsciiStrToLower(type.value(i)->name()));
  }
  return names;
}

absl::Status WrongValue(absl::string_view text, const FieldDescriptor& field) {
  return absl::InvalidArgumentError(
      absl::StrCat(Quoted(text), " is not ", ExpectedValue(field), ", which ",
                   field.name(), " needs"));
}

absl::Status ParseInteger(absl::string_view text, const FieldDescriptor& field,
                          int64_t& value) {
  if (!absl::SimpleAtoi(text, &value)) return WrongValue(text, field);
  return absl::OkStatus();
}

absl::Status ParseUnsigned(absl::string_view text, const FieldDescriptor& field,
                           uint64_t& value) {
  if (absl::SimpleAtoi(text, &value)) return absl::OkStatus();
  if (!absl::EndsWith(field.name(), "_bytes")) return WrongValue(text, field);
  const absl::StatusOr<uint64_t> bytes = ParseByteSize(text);
  if (!bytes.ok()) return bytes.status();
  value = *bytes;
  return absl::OkStatus();
}

absl::Status OutOfRange(absl::string_view text, const FieldDescriptor& field,
                        absl::string_view range) {
  return absl::InvalidArgumentError(absl::StrCat(
      field.name(), " is ", text, ", which is outside of ", range));
}

absl::Status ParseDouble(absl::string_view text, const FieldDescriptor& field,
                         double& value) {
  if (!absl::SimpleAtod(text, &value)) return WrongValue(text, field);
  return absl::OkStatus();
}

// Accepts the words of YAML 1.2. YAML 1.1 had more, which are refused.
absl::Status ParseBool(absl::string_view text, const FieldDescriptor& field,
                       bool& value) {
  const auto is_one_of = [text](std::initializer_list<const char*> words) {
    return std::find(words.begin(), words.end(), text) != words.end();
  };
  value = is_one_of({"true", "True", "TRUE"});
  if (value || is_one_of({"false", "False", "FALSE"})) return absl::OkStatus();
  const std::string lower = absl::AsciiStrToLower(text);
  const bool means_true = lower == "yes" || lower == "on" || lower == "true";
  const bool is_known =
      means_true || lower == "no" || lower == "off" || lower == "false";
  return absl::InvalidArgumentError(absl::StrCat(
      WrongValue(text, field).message(), !is_known    ? ""
                                         : means_true ? "; write true"
                                                      : "; write false"));
}

const EnumValueDescriptor* FindEnumValue(absl::string_view text,
                                         const EnumDescriptor& type) {
  for (int i = 0; i < type.value_count(); ++i) {
    if (absl::EqualsIgnoreCase(text, type.value(i)->name())) {
      return type.value(i);
    }
  }
  return nullptr;
}

// Calls Set<Type> or Add<Type> of the reflection interface.
#define GPUPOOL_STORE(Type, value)                                       \
  (field.is_repeated() ? reflection.Add##Type(&message, &field, (value)) \
                       : reflection.Set##Type(&message, &field, (value)))

absl::Status StoreSigned(absl::string_view text, const FieldDescriptor& field,
                         const Reflection& reflection, Message& message) {
  int64_t value = 0;
  if (absl::Status parsed = ParseInteger(text, field, value); !parsed.ok()) {
    return parsed;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
    GPUPOOL_STORE(Int64, value);
    return absl::OkStatus();
  }
  using Limits = std::numeric_limits<int32_t>;
  if (value < Limits::min() || value > Limits::max()) {
    return OutOfRange(text, field, "-2147483648..2147483647");
  }
  GPUPOOL_STORE(Int32, static_cast<int32_t>(value));
  return absl::OkStatus();
}

absl::Status StoreUnsigned(absl::string_view text, const FieldDescriptor& field,
                           const Reflection& reflection, Message& message) {
  uint64_t value = 0;
  if (absl::Status parsed = ParseUnsigned(text, field, value); !parsed.ok()) {
    return parsed;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
    GPUPOOL_STORE(UInt64, value);
    return absl::OkStatus();
  }
  if (value > std::numeric_limits<uint32_t>::max()) {
    return OutOfRange(text, field, "0..4294967295");
  }
  GPUPOOL_STORE(UInt32, static_cast<uint32_t>(value));
  return absl::OkStatus();
}

absl::Status StoreReal(absl::string_view text, const FieldDescriptor& field,
                       const Reflection& reflection, Message& message) {
  double value = 0;
  if (absl::Status parsed = ParseDouble(text, field, value); !parsed.ok()) {
    return parsed;
  }
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    GPUPOOL_STORE(Double, value);
  } else {
    GPUPOOL_STORE(Float, static_cast<float>(value));
  }
  return absl::OkStatus();
}

absl::Status StoreEnum(absl::string_view text, const FieldDescriptor& field,
                       const Reflection& reflection, Message& message) {
  if (field.enum_type() == v1::Precision_descriptor()) {
    const absl::StatusOr<v1::Precision> precision = ParsePrecision(text);
    if (!precision.ok()) return precision.status();
    GPUPOOL_STORE(EnumValue, *precision);
    return absl::OkStatus();
  }
  const EnumValueDescriptor* value = FindEnumValue(text, *field.enum_type());
  if (value == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(WrongValue(text, field).message(),
                     DidYouMean(text, EnumNames(*field.enum_type()))));
  }
  GPUPOOL_STORE(Enum, value);
  return absl::OkStatus();
}

// Calls Get<Type> or GetRepeated<Type>.
#define GPUPOOL_LOAD(Type)                           \
  (index < 0 ? reflection.Get##Type(message, &field) \
             : reflection.GetRepeated##Type(message, &field, index))

// Returns the shortest text that reads back to the same double.
std::string RealText(double value, int digits) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  for (int precision = 6; precision < digits; ++precision) {
    const std::string text = absl::StrFormat("%.*g", precision, value);
    double back = 0;
    if (absl::SimpleAtod(text, &back) && back == value) return text;
  }
  return absl::StrFormat("%.*g", digits, value);
}

}  // namespace

absl::Status SetScalar(absl::string_view text, const FieldDescriptor& field,
                       Message& message) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return StoreSigned(text, field, reflection, message);
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return StoreUnsigned(text, field, reflection, message);
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return StoreReal(text, field, reflection, message);
    case FieldDescriptor::CPPTYPE_ENUM:
      return StoreEnum(text, field, reflection, message);
    case FieldDescriptor::CPPTYPE_BOOL: {
      bool value = false;
      absl::Status parsed = ParseBool(text, field, value);
      if (parsed.ok()) GPUPOOL_STORE(Bool, value);
      return parsed;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      if (!IsUtf8(text)) {
        return absl::InvalidArgumentError(
            absl::StrCat(field.name(),
                         " has bytes that are no UTF-8 text; is it the right "
                         "file?"));
      }
      GPUPOOL_STORE(String, std::string(text));
      return absl::OkStatus();
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return absl::InternalError(
      absl::StrCat(field.full_name(), " is not a scalar field"));
}

std::string ExpectedValue(const FieldDescriptor& field) {
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
    case FieldDescriptor::CPPTYPE_INT64:
      return "a whole number";
    case FieldDescriptor::CPPTYPE_UINT32:
    case FieldDescriptor::CPPTYPE_UINT64:
      return "a whole number of 0 or more";
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT:
      return "a number";
    case FieldDescriptor::CPPTYPE_BOOL:
      return "true or false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::StrCat("one of ",
                          absl::StrJoin(EnumNames(*field.enum_type()), ", "));
    case FieldDescriptor::CPPTYPE_STRING:
      return "a text";
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return absl::StrCat("a mapping of ", field.message_type()->name());
  }
  return "a value";
}

std::string ScalarText(const Message& message, const FieldDescriptor& field,
                       int index) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(GPUPOOL_LOAD(Int32));
    case FieldDescriptor::CPPTYPE_INT64:
      return absl::StrCat(GPUPOOL_LOAD(Int64));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(GPUPOOL_LOAD(UInt32));
    case FieldDescriptor::CPPTYPE_UINT64:
      return absl::StrCat(GPUPOOL_LOAD(UInt64));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return RealText(GPUPOOL_LOAD(Double), 17);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return RealText(GPUPOOL_LOAD(Float), 9);
    case FieldDescriptor::CPPTYPE_BOOL:
      return GPUPOOL_LOAD(Bool) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return GPUPOOL_LOAD(Enum)->name();
    case FieldDescriptor::CPPTYPE_STRING:
      return GPUPOOL_LOAD(String);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  return "";
}

}  // namespace gpupool::client
