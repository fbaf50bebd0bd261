#include "server/api/rpc/hidden_models.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace gpupool::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr char kModel[] = "model ";
constexpr size_t kModelBytes = sizeof(kModel) - 1;
constexpr char kHidden[] = "model of another tenant";

class Veil {
 public:
  Veil(const TenantAccess& access, const Identity& caller)
      : access_(access), caller_(caller) {}

  void Cover(Message* message) {
    std::vector<const FieldDescriptor*> fields;
    message->GetReflection()->ListFields(*message, &fields);
    for (const FieldDescriptor* field : fields) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE ||
          field->type() == FieldDescriptor::TYPE_STRING) {
        CoverField(field, message);
      }
    }
  }

  bool MayUse(const std::string& model) {
    const auto [entry, is_new] = known_.try_emplace(model, false);
    if (is_new) entry->second = access_.CheckModel(caller_, model).ok();
    return entry->second;
  }

 private:
  void CoverField(const FieldDescriptor* field, Message* message) {
    const Reflection& reflection = *message->GetReflection();
    const bool is_message =
        field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (!field->is_repeated()) {
      if (is_message) return Cover(reflection.MutableMessage(message, field));
      return reflection.SetString(
          message, field, Covered(reflection.GetString(*message, field)));
    }
    const int count = reflection.FieldSize(*message, field);
    for (int i = 0; i < count; ++i) {
      if (is_message) {
        Cover(reflection.MutableRepeatedMessage(message, field, i));
      } else {
        reflection.SetRepeatedString(
            message, field, i,
            Covered(reflection.GetRepeatedString(*message, field, i)));
      }
    }
  }

  // Replaces "model NAME" before a slash.
  std::string Covered(const std::string& text) {
    std::string covered;
    size_t done = 0;
    for (size_t at = text.find(kModel); at != std::string::npos;
         at = text.find(kModel, at + kModelBytes)) {
      const size_t begin = at + kModelBytes;
      const size_t end = text.find_first_of("/ \n", begin);
      if (end == std::string::npos || text[end] != '/') continue;
      if (MayUse(text.substr(begin, end - begin))) continue;
      covered.append(text, done, at - done);
      covered.append(kHidden);
      done = end;
    }
    covered.append(text, done, std::string::npos);
    return covered;
  }

  const TenantAccess& access_;
  const Identity& caller_;
  absl::flat_hash_map<std::string, bool> known_;
};

}  // namespace

void HideModels(const TenantAccess& access, const Identity& caller,
                Message* message) {
  if (caller.is_bound()) Veil(access, caller).Cover(message);
}

void HideModelsOf(const TenantAccess& access, const Identity& caller,
                  v1::Device* device) {
  if (!caller.is_bound()) return;
  Veil veil(access, caller);
  auto* versions = device->mutable_versions();
  versions->erase(
      std::remove_if(versions->begin(), versions->end(),
                     [&](const std::string& label) {
                       return !veil.MayUse(label.substr(0, label.rfind('/')));
                     }),
      versions->end());
  if (device->has_memory()) veil.Cover(device->mutable_memory());
}

}  // namespace gpupool::server
