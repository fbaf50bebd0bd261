#include "server/repository/config_repeat.h"

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"
#include "server/api/validation/convert.h"
#include "server/repository/config_tensors.h"
#include "server/serving/decoupled/repeat_models.h"
#include "server/serving/decoupled/repeat_responses.h"

namespace gpupool::server {
namespace {

using engine::Refuse;

absl::Status CheckRepeatIdentity(absl::string_view model,
                                 const inference::ModelConfig& config) {
  if (!config.name().empty() && config.name() != model) {
    return Refuse("name is ", Quoted(config.name()), ", its folder is ",
                  Quoted(model), "; make them equal or remove name");
  }
  for (const auto& [field, value] :
       {std::pair{"backend", config.backend()},
        std::pair{"platform", config.platform()}}) {
    if (value.empty() || value == kRepeatBackend) continue;
    return Refuse(field, " is ", Quoted(value),
                  "; a model of the back end repeat has no other one: remove "
                  "it");
  }
  if (!config.default_model_filename().empty()) {
    return Refuse(
        "default_model_filename is set; the back end repeat reads no file: "
        "remove it");
  }
  return absl::OkStatus();
}

absl::Status CheckRepeatServing(const inference::ModelConfig& config) {
  if (!config.model_transaction_policy().decoupled()) {
    return Refuse(
        "backend is \"repeat\", whose models have any number of responses; "
        "write model_transaction_policy { decoupled: true }");
  }
  if (config.max_batch_size() != 0) {
    return Refuse("max_batch_size is ", config.max_batch_size(),
                  "; a model of the back end repeat has no batches: write 0");
  }
  for (const auto& [field, is_set] :
       {std::pair{"dynamic_batching", config.has_dynamic_batching()},
        std::pair{"sequence_batching", config.has_sequence_batching()},
        std::pair{"response_cache.enable", config.response_cache().enable()}}) {
    if (!is_set) continue;
    return Refuse(field,
                  " is set; a model of the back end repeat does without: "
                  "remove it");
  }
  for (const auto& group : config.instance_group()) {
    if (group.kind() == inference::ModelInstanceGroup::KIND_CPU ||
        group.kind() == inference::ModelInstanceGroup::KIND_AUTO) {
      continue;
    }
    return Refuse("instance_group.kind is ",
                  inference::ModelInstanceGroup::Kind_Name(group.kind()),
                  "; the back end repeat is on no device: write KIND_CPU");
  }
  return absl::OkStatus();
}

}  // namespace

bool IsRepeat(const inference::ModelConfig& config) {
  return config.backend() == kRepeatBackend ||
         config.platform() == kRepeatBackend;
}

absl::Status CheckRepeatConfig(absl::string_view model,
                               const inference::ModelConfig& config) {
  absl::Status checked = CheckRepeatIdentity(model, config);
  checked.Update(CheckRepeatServing(config));
  if (!checked.ok()) return Refuse("config.pbtxt: ", checked.message());
  v1::Plan plan;
  v1::ModelSpec spec;
  DescribeRepeat(&plan, &spec);
  return CheckConfigTensors(config, plan);
}

}  // namespace gpupool::server
