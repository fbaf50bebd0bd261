#include "server/control/jobs/array_spec.h"

#include <algorithm>
#include <array>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"

namespace gpupool::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr absl::string_view kIndex = "${index}";
// Fields that belong to the whole array.
constexpr std::array<absl::string_view, 9> kOfTheWhole = {
    "tenant",    "queue", "priority",     "hold",    "after_ok",
    "after_any", "array", "start_before", "deadline"};

bool IsOfTheWhole(absl::string_view field) {
  return std::find(kOfTheWhole.begin(), kOfTheWhole.end(), field) !=
         kOfTheWhole.end();
}

absl::Status Wrong(absl::string_view field, absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("array.", field, ": ", what));
}

std::string WithIndex(absl::string_view text, uint32_t index) {
  return absl::StrReplaceAll(text, {{kIndex, absl::StrCat(index)}});
}

bool ParseIndex(absl::string_view text, uint32_t& index) {
  return !text.empty() && text.front() >= '0' && text.front() <= '9' &&
         absl::SimpleAtoi(text, &index) && index <= kMaxArrayIndex;
}

// Adds "7", "7-9" or "7-9:2". Returns false for anything else, and for numbers
// that do not rise.
bool AddRange(absl::string_view part, std::vector<uint32_t>& indices) {
  uint32_t first = 0, last = 0, step = 1;
  const std::vector<absl::string_view> by_step = absl::StrSplit(part, ':');
  const std::vector<absl::string_view> ends = absl::StrSplit(by_step[0], '-');
  if (by_step.size() > 2 || ends.size() > 2) return false;
  if (!ParseIndex(ends[0], first) || !ParseIndex(ends.back(), last)) {
    return false;
  }
  if (by_step.size() == 2 &&
      (ends.size() == 1 || !ParseIndex(by_step[1], step) || step == 0)) {
    return false;
  }
  if (last < first || (!indices.empty() && first <= indices.back())) {
    return false;
  }
  // 64 bits, so that i cannot wrap below `last`. One above the limit is enough
  // for the error.
  for (uint64_t i = first; i <= last && indices.size() <= kMaxArrayTasks;
       i += step) {
    indices.push_back(static_cast<uint32_t>(i));
  }
  return true;
}

// Puts the index into every string, except those of the whole array.
void Substitute(Message& message, uint32_t index, bool is_spec) {
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->is_map() || (is_spec && IsOfTheWhole(field->name()))) continue;
    const int count =
        field->is_repeated() ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
        Substitute(field->is_repeated()
                       ? *reflection.MutableRepeatedMessage(&message, field, i)
                       : *reflection.MutableMessage(&message, field),
                   index, false);
      } else if (field->type() == FieldDescriptor::TYPE_STRING &&
                 field->is_repeated()) {
        reflection.SetRepeatedString(
            &message, field, i,
            WithIndex(reflection.GetRepeatedString(message, field, i), index));
      } else if (field->type() == FieldDescriptor::TYPE_STRING) {
        reflection.SetString(
            &message, field,
            WithIndex(reflection.GetString(message, field), index));
      }
    }
  }
}

template <typename T>
bool ParseInteger(const std::string& text, T& value) {
  return absl::SimpleAtoi(text, &value);
}

// Returns false when the text is no value of the field's type.
bool SetScalar(Message& message, const FieldDescriptor* field,
               const std::string& text) {
  const Reflection& reflection = *message.GetReflection();
  int32_t int32 = 0;
  int64_t int64 = 0;
  uint32_t uint32 = 0;
  uint64_t uint64 = 0;
  double number = 0;
  bool flag = false;
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      if (!ParseInteger(text, int32)) return false;
      reflection.SetInt32(&message, field, int32);
      return true;
    case FieldDescriptor::CPPTYPE_INT64:
      if (!ParseInteger(text, int64)) return false;
      reflection.SetInt64(&message, field, int64);
      return true;
    case FieldDescriptor::CPPTYPE_UINT32:
      if (!ParseInteger(text, uint32)) return false;
      reflection.SetUInt32(&message, field, uint32);
      return true;
    case FieldDescriptor::CPPTYPE_UINT64:
      if (!ParseInteger(text, uint64)) return false;
      reflection.SetUInt64(&message, field, uint64);
      return true;
    case FieldDescriptor::CPPTYPE_DOUBLE:
      if (!absl::SimpleAtod(text, &number)) return false;
      reflection.SetDouble(&message, field, number);
      return true;
    case FieldDescriptor::CPPTYPE_FLOAT:
      if (!absl::SimpleAtod(text, &number)) return false;
      reflection.SetFloat(&message, field, static_cast<float>(number));
      return true;
    case FieldDescriptor::CPPTYPE_BOOL:
      if (!absl::SimpleAtob(text, &flag)) return false;
      reflection.SetBool(&message, field, flag);
      return true;
    case FieldDescriptor::CPPTYPE_ENUM: {
      const auto* value =
          field->enum_type()->FindValueByName(absl::AsciiStrToUpper(text));
      if (value == nullptr) return false;
      reflection.SetEnum(&message, field, value);
      return true;
    }
    case FieldDescriptor::CPPTYPE_STRING:
      reflection.SetString(&message, field, text);
      return true;
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return false;
  }
  return false;
}

// Returns the field of that name. Fails when another member of its oneof is
// set, since writing the field would clear that one.
absl::StatusOr<const FieldDescriptor*> FindField(const Message& message,
                                                 absl::string_view path,
                                                 absl::string_view name) {
  const FieldDescriptor* field =
      message.GetDescriptor()->FindFieldByName(std::string(name));
  if (field == nullptr) {
    return Wrong("values", absl::StrCat("\"", path,
                                        "\" names no field: there "
                                        "is no \"",
                                        name, "\""));
  }
  const auto* oneof = field->real_containing_oneof();
  const Reflection& reflection = *message.GetReflection();
  if (oneof != nullptr && reflection.HasOneof(message, oneof) &&
      !reflection.HasField(message, field)) {
    return Wrong(
        "values",
        absl::StrCat(
            "\"", path, "\" is not used by this job: its ", oneof->name(),
            " is ",
            reflection.GetOneofFieldDescriptor(message, oneof)->name()));
  }
  return field;
}

// Sets the field with that path of names and positions, by reflection, so that
// every scalar field of a spec can vary without code of its own.
absl::Status SetField(Message& spec, const std::string& path,
                      const std::string& text) {
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  Message* message = &spec;
  for (size_t i = 0; i < names.size(); ++i) {
    ASSIGN_OR_RETURN(const FieldDescriptor* field,
                     FindField(*message, path, names[i]));
    const Reflection& reflection = *message->GetReflection();
    const bool is_message = field->type() == FieldDescriptor::TYPE_MESSAGE;
    const bool is_last = i + 1 == names.size();
    if (!is_message && is_last && !field->is_repeated()) {
      if (SetScalar(*message, field, text)) return absl::OkStatus();
      return Wrong("values",
                   absl::StrCat("\"", path, "\" cannot be \"", text,
                                "\": it is of type ", field->cpp_type_name()));
    }
    if (!is_message || is_last || field->is_map()) break;
    if (!field->is_repeated()) {
      message = reflection.MutableMessage(message, field);
      continue;
    }
    int position = 0;
    if (!absl::SimpleAtoi(names[++i], &position) || position < 0 ||
        position >= reflection.FieldSize(*message, field)) {
      return Wrong("values",
                   absl::StrCat("\"", path, "\": ", field->name(), " has ",
                                reflection.FieldSize(*message, field),
                                " entries, counted from 0"));
    }
    message = reflection.MutableRepeatedMessage(message, field, position);
  }
  return Wrong(
      "values",
      absl::StrCat("\"", path, "\" is not one number, string or boolean"));
}

// Checks that each field has one value for all tasks or one for each.
absl::Status CheckValues(const v1::ArraySpec& array, size_t tasks) {
  for (const auto& [path, values] : array.values()) {
    const std::vector<absl::string_view> names = absl::StrSplit(path, '.');
    if (IsOfTheWhole(names.front())) {
      return Wrong("values", absl::StrCat("\"", path,
                                          "\" belongs to the whole "
                                          "array; set it outside of `array`"));
    }
    const auto count = static_cast<size_t>(values.values_size());
    if (count == 1 || count == tasks) continue;
    return Wrong(
        "values",
        absl::StrCat("\"", path, "\" has ", count, " values for ", tasks,
                     " tasks; give one for each, or one for all"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<uint32_t>> ParseIndices(absl::string_view text) {
  std::vector<uint32_t> indices;
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    if (AddRange(part, indices) && indices.size() <= kMaxArrayTasks) continue;
    if (indices.size() > kMaxArrayTasks) {
      return Wrong("indices", absl::StrCat("more than ", kMaxArrayTasks,
                                           " tasks; submit several arrays"));
    }
    return Wrong(
        "indices",
        absl::StrCat("\"", text.substr(0, 64), "\" at \"", part.substr(0, 64),
                     "\": numbers of 0 .. ", kMaxArrayIndex,
                     " and ranges are expected, each number once and in rising "
                     "order, as in \"0-99\", \"0-99:4\" or \"1,3,7-9\""));
  }
  return indices;
}

absl::StatusOr<std::vector<ArrayTask>> TasksOf(const v1::JobSpec& spec) {
  const v1::ArraySpec& array = spec.array();
  ASSIGN_OR_RETURN(const std::vector<uint32_t> indices,
                   ParseIndices(array.indices()));
  RETURN_IF_ERROR(CheckValues(array, indices.size()));
  v1::JobSpec base = spec;
  base.clear_array();
  std::vector<ArrayTask> tasks;
  tasks.reserve(indices.size());
  for (size_t i = 0; i < indices.size(); ++i) {
    ArrayTask task{indices[i], base};
    Substitute(task.spec, task.index, true);
    for (const auto& [path, values] : array.values()) {
      const std::string& text =
          values.values(values.values_size() == 1 ? 0 : static_cast<int>(i));
      RETURN_IF_ERROR(SetField(task.spec, path, WithIndex(text, task.index)));
    }
    tasks.push_back(std::move(task));
  }
  return tasks;
}

}  // namespace gpupool::server
