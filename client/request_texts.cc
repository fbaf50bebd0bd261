#include "client/request_texts.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/message.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "client/text/utf8.h"

namespace gpupool::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr size_t kMostShownBytes = 40;

absl::Status CheckText(const std::string& path, const std::string& text) {
  if (IsUtf8(text)) return absl::OkStatus();
  const absl::string_view shown =
      absl::string_view(text).substr(0, kMostShownBytes);
  return absl::InvalidArgumentError(absl::StrCat(
      // Uploads have their facts in a message of this name.
      absl::StripPrefix(path, "header."), " is '", absl::CHexEscape(shown),
      shown.size() < text.size() ? "...'" : "'",
      ", which is not UTF-8; write it in UTF-8"));
}

absl::Status CheckFields(const std::string& prefix, const Message& message) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  if (type.options().map_entry()) {
    fields = {type.map_key(), type.map_value()};
  } else {
    reflection.ListFields(message, &fields);
  }
  for (const FieldDescriptor* field : fields) {
    const bool text = field->type() == FieldDescriptor::TYPE_STRING;
    if (!text && field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      continue;
    }
    const std::string path = absl::StrCat(prefix, field->name());
    const bool list = field->is_repeated();
    const int count = list ? reflection.FieldSize(message, field) : 1;
    std::string scratch;
    for (int i = 0; i < count; ++i) {
      absl::Status checked;
      if (text) {
        checked = CheckText(path, list ? reflection.GetRepeatedStringReference(
                                             message, field, i, &scratch)
                                       : reflection.GetStringReference(
                                             message, field, &scratch));
      } else {
        checked =
            CheckFields(absl::StrCat(path, "."),
                        list ? reflection.GetRepeatedMessage(message, field, i)
                             : reflection.GetMessage(message, field));
      }
      if (!checked.ok()) return checked;
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckTexts(const Message& message) {
  return CheckFields("", message);
}

}  // namespace gpupool::client
