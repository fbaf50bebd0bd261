#include "client/cli/mlflow/spec_params.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "client/cli/mlflow/entity_names.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {
namespace {

using OrderedJson = nlohmann::ordered_json;

std::string TextOfValue(const OrderedJson& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_array()) return value.dump();
  std::string text;
  for (const OrderedJson& item : value) {
    absl::StrAppend(&text, text.empty() ? "" : ", ", TextOfValue(item));
  }
  return text;
}

class ParamList {
 public:
  // Adds `value`, or what is in it, under the key `path`.
  void Add(const std::string& path, const OrderedJson& value) {
    if (params_.size() >= kMostSpecParams) return;
    if (value.is_object() && !value.empty()) {
      for (const auto& [key, member] : value.items()) {
        Add(absl::StrCat(path, ".", key), member);
      }
    } else if (IsListOfMessages(value)) {
      for (size_t i = 0; i < value.size(); ++i) {
        Add(absl::StrCat(path, ".", i), value[i]);
      }
    } else {
      AddText(path, TextOfValue(value));
    }
  }

  KeyValues Take() { return std::move(params_); }

 private:
  static bool IsListOfMessages(const OrderedJson& value) {
    return value.is_array() &&
           std::any_of(value.begin(), value.end(), [](const OrderedJson& item) {
             return item.is_object();
           });
  }

  void AddText(const std::string& path, const std::string& text) {
    if (text.empty()) return;
    std::string key = EntityName(path);
    if (keys_.insert(key).second) {
      params_.emplace_back(std::move(key), ParamValue(text));
    }
  }

  KeyValues params_;
  absl::flat_hash_set<std::string> keys_;
};

}  // namespace

KeyValues SpecParams(const v1::JobSpec& spec) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string text;
  // The function fails only if a text is not UTF-8, which servers refuse.
  if (!google::protobuf::util::MessageToJsonString(spec, &text, options).ok()) {
    return {};
  }
  const OrderedJson json = OrderedJson::parse(text, nullptr, false);
  if (!json.is_object()) return {};
  ParamList params;
  // The model is last, since it alone can have more fields than the limit.
  constexpr char kModel[] = "model";
  for (const auto& [key, value] : json.items()) {
    if (key != kModel) params.Add(key, value);
  }
  if (json.contains(kModel)) params.Add(kModel, json[kModel]);
  return params.Take();
}

}  // namespace gpupool::client
