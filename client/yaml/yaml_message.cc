#include "client/yaml/yaml_message.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/time_util.h>
#include <yaml-cpp/yaml.h>

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/text/quote.h"
#include "client/text/suggest.h"
#include "client/text/text_file.h"
#include "client/yaml/yaml_scalar.h"

namespace gpupool::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;
using google::protobuf::Reflection;

constexpr int kDeepest = 64;  // Aliases can make a document infinitely deep.

const OneofDescriptor* FindOneof(const Descriptor& type,
                                 const std::string& name) {
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    if (type.oneof_decl(i)->name() == name) return type.oneof_decl(i);
  }
  return nullptr;
}

std::vector<std::string> KeysOf(const Descriptor& type) {
  std::vector<std::string> keys;
  for (int i = 0; i < type.field_count(); ++i) {
    keys.push_back(type.field(i)->name());
  }
  for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
    keys.push_back(type.oneof_decl(i)->name());
  }
  return keys;
}

std::vector<std::string> MembersOf(const OneofDescriptor& oneof) {
  std::vector<std::string> names;
  for (int i = 0; i < oneof.field_count(); ++i) {
    names.push_back(oneof.field(i)->name());
  }
  return names;
}

// Returns " (known: a, b)", or " (it takes none)" for a layer without settings.
std::string Known(const std::vector<std::string>& words) {
  if (words.empty()) return " (it takes none)";
  return absl::StrCat(" (known: ", absl::StrJoin(words, ", "), ")");
}

bool IsTextMessage(const Descriptor& type) {
  return type.full_name() == "google.protobuf.Duration" ||
         type.full_name() == "google.protobuf.Timestamp";
}

// Returns whether the message has only one repeated field. A sequence can then
// stand for the message.
bool IsList(const Descriptor& type) {
  return type.field_count() == 1 && type.field(0)->is_repeated() &&
         !type.field(0)->is_map();
}

// Reads one document. Keeps the name of the source for errors.
class Reader {
 public:
  explicit Reader(absl::string_view source) : source_(source) {}

  absl::Status Read(const YAML::Node& node, Message& message, int depth) {
    if (depth > kDeepest) return Error(node, "nested too deeply");
    const Descriptor& type = *message.GetDescriptor();
    if (node.IsNull()) return absl::OkStatus();
    if (node.IsScalar() && IsList(type) &&
        type.field(0)->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return ReadField(node, node, *type.field(0), message, depth);
    }
    if (node.IsScalar()) return ReadWord(node, message, depth);
    if (node.IsSequence() && IsList(type)) {
      return ReadField(node, node, *type.field(0), message, depth);
    }
    if (!node.IsMap()) {
      return Error(
          node, absl::StrCat(type.name(), " needs a mapping, not a sequence"));
    }
    std::set<std::string> seen;
    for (const auto& entry : node) {
      if (!entry.first.IsScalar()) {
        return Error(entry.first, "a key must be a word");
      }
      const std::string& key = entry.first.Scalar();
      if (!seen.insert(key).second) {
        return Error(entry.first, absl::StrCat(Quoted(key), " is given twice"));
      }
      absl::Status read = ReadEntry(entry.first, entry.second, message, depth);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

  absl::Status Error(const YAML::Node& node, absl::string_view text) const {
    return Error(node.Mark(), text);
  }

  absl::Status Error(const YAML::Mark& mark, absl::string_view text) const {
    if (mark.is_null()) {
      return absl::InvalidArgumentError(absl::StrCat(source_, ": ", text));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        source_, ":", mark.line + 1, ":", mark.column + 1, ": ", text));
  }

 private:
  absl::Status ReadEntry(const YAML::Node& key_node, const YAML::Node& value,
                         Message& message, int depth) {
    const std::string& key = key_node.Scalar();
    const Descriptor& type = *message.GetDescriptor();
    if (const FieldDescriptor* field = type.FindFieldByName(key)) {
      return ReadField(key_node, value, *field, message, depth);
    }
    if (const OneofDescriptor* oneof = FindOneof(type, key)) {
      return ReadOneof(key_node, value, *oneof, message, depth);
    }
    const std::vector<std::string> keys = KeysOf(type);
    return Error(key_node,
                 absl::StrCat("unknown field ", Quoted(key), " in ",
                              type.name(), DidYouMean(key, keys), Known(keys)));
  }

  // Reads a bare word such as `relu` where a Layer is expected.
  absl::Status ReadWord(const YAML::Node& node, Message& message, int depth) {
    const Descriptor& type = *message.GetDescriptor();
    const std::string& word = node.Scalar();
    if (IsTextMessage(type)) return ReadText(node, message);
    if (const FieldDescriptor* file = type.FindFieldByName("file")) {
      return ReadOne(node, node, *file, message, depth);
    }
    const FieldDescriptor* field = type.FindFieldByName(word);
    if (field == nullptr ||
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE ||
        field->is_repeated()) {
      std::vector<std::string> words;
      for (int i = 0; i < type.field_count(); ++i) {
        if (type.field(i)->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
            !type.field(i)->is_repeated()) {
          words.push_back(type.field(i)->name());
        }
      }
      return Error(
          node, words.empty()
                    ? absl::StrCat(Quoted(word), " is not a mapping of ",
                                   type.name(), Known(KeysOf(type)))
                    : absl::StrCat("unknown ", type.name(), " ", Quoted(word),
                                   DidYouMean(word, words), Known(words)));
    }
    return ReadField(node, YAML::Node(), *field, message, depth);
  }

  absl::Status ReadText(const YAML::Node& node, Message& message) {
    using google::protobuf::util::TimeUtil;
    const std::string& text = node.Scalar();
    if (message.GetDescriptor()->name() == "Duration") {
      google::protobuf::Duration duration;
      if (!TimeUtil::FromString(text, &duration)) {
        return Error(node, absl::StrCat(Quoted(text),
                                        " is not a duration such as 1.5s"));
      }
      message.CopyFrom(duration);
      return absl::OkStatus();
    }
    google::protobuf::Timestamp time;
    if (!TimeUtil::FromString(text, &time)) {
      return Error(node,
                   absl::StrCat(Quoted(text),
                                " is not a time such as 2026-01-31T12:00:00Z"));
    }
    message.CopyFrom(time);
    return absl::OkStatus();
  }

  absl::Status ReadOneof(const YAML::Node& key_node, const YAML::Node& value,
                         const OneofDescriptor& oneof, Message& message,
                         int depth) {
    YAML::Node name = value;
    YAML::Node content;
    if (value.IsMap() && value.size() == 1) {
      // An assignment would change the document itself.
      name.reset(value.begin()->first);
      content.reset(value.begin()->second);
    }
    const std::vector<std::string> members = MembersOf(oneof);
    if (!name.IsScalar()) {
      return Error(key_node,
                   absl::StrCat("'", oneof.name(), "' needs exactly one of ",
                                absl::StrJoin(members, ", ")));
    }
    const FieldDescriptor* field =
        oneof.containing_type()->FindFieldByName(name.Scalar());
    if (field == nullptr || field->containing_oneof() != &oneof) {
      return Error(
          name,
          absl::StrCat("unknown ", oneof.name(), " ", Quoted(name.Scalar()),
                       DidYouMean(name.Scalar(), members), Known(members)));
    }
    return ReadField(name, content, *field, message, depth);
  }

  absl::Status ReadField(const YAML::Node& key, const YAML::Node& value,
                         const FieldDescriptor& field, Message& message,
                         int depth) {
    const Reflection& reflection = *message.GetReflection();
    if (const OneofDescriptor* oneof = field.real_containing_oneof();
        oneof != nullptr && reflection.HasOneof(message, oneof)) {
      return Error(
          key, absl::StrCat(
                   "'", field.name(), "' and '",
                   reflection.GetOneofFieldDescriptor(message, oneof)->name(),
                   "' are both given; choose one ", oneof->name()));
    }
    if (field.is_map()) return ReadMap(key, value, field, message, depth);
    if (!field.is_repeated()) return ReadOne(key, value, field, message, depth);
    if (!value.IsSequence()) return ReadOne(key, value, field, message, depth);
    for (const YAML::Node& element : value) {
      if (element.IsNull()) {
        return Error(element,
                     absl::StrCat("'", field.name(), "' has an empty item"));
      }
      absl::Status read = ReadOne(element, element, field, message, depth);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

  // Reads one value of a field. Appends it if the field is repeated.
  absl::Status ReadOne(const YAML::Node& key, const YAML::Node& value,
                       const FieldDescriptor& field, Message& message,
                       int depth) {
    if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      const Reflection& reflection = *message.GetReflection();
      Message& child = field.is_repeated()
                           ? *reflection.AddMessage(&message, &field)
                           : *reflection.MutableMessage(&message, &field);
      return Read(value, child, depth + 1);
    }
    if (value.IsNull()) {
      return Error(key, absl::StrCat("'", field.name(), "' has no value; ",
                                     "it needs ", ExpectedValue(field)));
    }
    if (!value.IsScalar()) {
      return Error(value, absl::StrCat("'", field.name(), "' needs ",
                                       ExpectedValue(field), ", not a ",
                                       value.IsMap() ? "mapping" : "sequence"));
    }
    absl::Status set = SetScalar(value.Scalar(), field, message);
    return set.ok() ? set : Error(value, set.message());
  }

  absl::Status ReadMap(const YAML::Node& key, const YAML::Node& value,
                       const FieldDescriptor& field, Message& message,
                       int depth) {
    if (!value.IsMap()) {
      return Error(key, absl::StrCat("'", field.name(), "' needs a mapping"));
    }
    for (const auto& entry : value) {
      Message& item = *message.GetReflection()->AddMessage(&message, &field);
      const Descriptor& type = *field.message_type();
      absl::Status read =
          ReadOne(entry.first, entry.first, *type.map_key(), item, depth);
      if (!read.ok()) return read;
      read = ReadOne(entry.first, entry.second, *type.map_value(), item, depth);
      if (!read.ok()) return read;
    }
    return absl::OkStatus();
  }

  const std::string source_;
};

}  // namespace

absl::Status YamlToMessage(const std::string& text, absl::string_view source,
                           Message& message) {
  Reader reader(source);
  // yaml-cpp reports errors by exceptions. They are caught here.
  try {
    const std::vector<YAML::Node> documents = YAML::LoadAll(text);
    if (documents.empty() || documents[0].IsNull()) {
      return absl::InvalidArgumentError(absl::StrCat(
          source, ": the file is empty; it should hold a ",
          message.GetDescriptor()->name(), " (",
          absl::StrJoin(KeysOf(*message.GetDescriptor()), ", "), ")"));
    }
    if (documents.size() > 1) {
      return reader.Error(documents[1],
                          "a second document begins here; one is expected");
    }
    return reader.Read(documents[0], message, 0);
  } catch (const YAML::Exception& error) {
    const bool is_colon = error.msg == YAML::ErrorMsg::MAP_VALUE;
    return reader.Error(
        error.mark,
        absl::StrCat(error.msg,
                     is_colon
                         ? "; quote a text that has a colon at its end or "
                           "before a space (a device, cuda:0, needs no quotes)"
                         : ""));
  }
}

absl::Status YamlFileToMessage(const std::string& path, Message& message) {
  absl::StatusOr<std::string> text = ReadTextFile(path, 16 << 20);
  if (!text.ok()) return text.status();
  return YamlToMessage(*text, path == "-" ? "standard input" : path, message);
}

}  // namespace gpupool::client
