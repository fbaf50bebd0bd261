#include "server/api/rpc/call_object.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMostText = 128;  // of a value

// Names of fields that say what a call is about.
constexpr std::array<const char*, 8> kNames = {
    "id",    "job_id",  "name",   "model_name",
    "model", "version", "device", "tenant"};

// Fields of requests and answers that have such fields.
constexpr std::array<const char*, 3> kInner = {"header", "spec", "token"};

// Returns the text of a string or of a number; empty for other fields and for
// those that are not set.
std::string ScalarText(const Message& message, const char* name) {
  const FieldDescriptor* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr || field->is_repeated()) return {};
  const Reflection& reflection = *message.GetReflection();
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return reflection.GetString(message, field).substr(0, kMostText);
  }
  uint64_t number = 0;
  if (field->cpp_type() == FieldDescriptor::CPPTYPE_UINT64) {
    number = reflection.GetUInt64(message, field);
  }
  return number == 0 ? std::string() : absl::StrCat(number);
}

// Returns the text in quotes if a reader could take a part of it for another
// field. Names that a handler refuses have any bytes.
std::string Unmistakable(const std::string& text) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) {
    return !absl::ascii_iscntrl(static_cast<unsigned char>(c)) &&
           !absl::StrContains(" =\"\\", c);
  });
  return plain ? text : absl::StrCat("\"", absl::Utf8SafeCEscape(text), "\"");
}

}  // namespace

void CallObject::Take(const Message& message) {
  TakeFields(message);
  for (const char* name : kInner) {
    const FieldDescriptor* field =
        message.GetDescriptor()->FindFieldByName(name);
    if (field == nullptr || field->is_repeated() ||
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        !message.GetReflection()->HasField(message, field)) {
      continue;
    }
    TakeFields(message.GetReflection()->GetMessage(message, field));
  }
}

void CallObject::TakeFields(const Message& message) {
  static_assert(kNames.size() == kFields);
  for (size_t i = 0; i < kFields; ++i) {
    if (values_[i].empty()) values_[i] = ScalarText(message, kNames[i]);
  }
  if (request_id_.empty()) request_id_ = ScalarText(message, "request_id");
}

std::string CallObject::Text() const {
  std::string text;
  for (size_t i = 0; i < kFields; ++i) {
    if (values_[i].empty()) continue;
    absl::StrAppend(&text, text.empty() ? "" : " ", kNames[i], "=",
                    Unmistakable(values_[i]));
  }
  return text;
}

}  // namespace gpupool::server
