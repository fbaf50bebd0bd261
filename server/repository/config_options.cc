#include "server/repository/config_options.h"

#include <algorithm>
#include <cstddef>
#include <limits>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"
#include "server/repository/config_sequences.h"

namespace gpupool::server {
namespace {

using engine::Refuse;
using inference::ModelInstanceGroup;

constexpr char kModelFile[] = "model.onnx";

absl::Status CheckIdentity(absl::string_view model,
                           const inference::ModelConfig& config) {
  if (!config.name().empty() && config.name() != model) {
    return Refuse("name is ", Quoted(config.name()), ", its folder is ",
                  Quoted(model), "; make them equal or remove name");
  }
  if (!config.platform().empty() &&
      !absl::StartsWith(config.platform(), "onnxruntime")) {
    return Refuse("platform is ", Quoted(config.platform()),
                  "; only onnxruntime_onnx is served: export the model as "
                  "ONNX");
  }
  if (!config.backend().empty() &&
      !absl::StartsWith(config.backend(), "onnxruntime")) {
    return Refuse("backend is ", Quoted(config.backend()),
                  "; only onnxruntime and repeat are served: export the model "
                  "as ONNX");
  }
  if (!config.default_model_filename().empty() &&
      config.default_model_filename() != kModelFile) {
    return Refuse("default_model_filename is ",
                  Quoted(config.default_model_filename()),
                  "; name the file model.onnx");
  }
  return absl::OkStatus();
}

absl::Status ReadBatching(const inference::ModelConfig& config,
                          ConfiguredServing* result) {
  if (config.max_batch_size() < 0) {
    return Refuse("max_batch_size is ", config.max_batch_size(),
                  "; it must be 0 or more");
  }
  v1::ServingOptions& serving = result->serving;
  serving.set_max_batch_size(static_cast<uint32_t>(config.max_batch_size()));
  const bool sequences = config.has_sequence_batching();
  const char* const field =
      sequences ? "sequence_batching" : "dynamic_batching";
  const inference::ModelDynamicBatching& batching = config.dynamic_batching();
  const uint64_t delay =
      sequences ? SequenceDelayMicroseconds(config.sequence_batching())
                : batching.max_queue_delay_microseconds();
  if (delay > std::numeric_limits<uint32_t>::max()) {
    return Refuse(field, ": max_queue_delay_microseconds is ", delay,
                  "; write a shorter time");
  }
  serving.set_max_queue_delay_microseconds(static_cast<uint32_t>(delay));
  serving.set_max_queue_size(batching.default_queue_policy().max_queue_size());
  RETURN_IF_ERROR(CheckServingOptions(field, &serving));
  if (sequences) {
    ASSIGN_OR_RETURN(
        *serving.mutable_sequences(),
        ReadSequences(config, serving.max_batch_size(), &result->notes));
  }
  for (const int32_t size : batching.preferred_batch_size()) {
    if (size >= 1 && size <= static_cast<int64_t>(serving.max_batch_size())) {
      continue;
    }
    return Refuse("dynamic_batching.preferred_batch_size has ", size,
                  "; it must be 1 .. ", serving.max_batch_size(),
                  ", which is max_batch_size");
  }
  if (batching.preferred_batch_size_size() > 0) {
    result->notes.emplace_back(
        "dynamic_batching.preferred_batch_size is a hint that is not needed: "
        "a batch leaves when it is full or max_queue_delay_microseconds is "
        "over");
  }
  return absl::OkStatus();
}

// Returns the device of the group, as LoadVersionRequest.device.
absl::StatusOr<std::string> DeviceOf(const ModelInstanceGroup& group) {
  switch (group.kind()) {
    case ModelInstanceGroup::KIND_CPU:
      if (group.gpus().empty()) return "cpu";
      return Refuse(
          "instance_group[0].gpus is set, but kind is KIND_CPU; remove one of "
          "them");
    case ModelInstanceGroup::KIND_AUTO:
    case ModelInstanceGroup::KIND_GPU:
      break;
    default:
      return Refuse("instance_group[0].kind is ",
                    ModelInstanceGroup::Kind_Name(group.kind()),
                    "; write KIND_GPU, KIND_CPU or KIND_AUTO");
  }
  if (group.gpus().empty()) {
    return group.kind() == ModelInstanceGroup::KIND_GPU ? "cuda" : "";
  }
  if (group.gpus_size() > 1) {
    return Refuse("instance_group[0].gpus names ", group.gpus_size(),
                  " GPUs; a version is loaded on one: name one, or none to let "
                  "the scheduler choose");
  }
  if (group.gpus(0) < 0) {
    return Refuse("instance_group[0].gpus has ", group.gpus(0),
                  "; indices begin at 0");
  }
  return absl::StrCat("cuda:", group.gpus(0));
}

absl::Status ReadGroups(const inference::ModelConfig& config,
                        ConfiguredServing* result) {
  if (config.instance_group().empty()) return absl::OkStatus();
  if (config.instance_group_size() > 1) {
    return Refuse("instance_group has ", config.instance_group_size(),
                  " groups; a version is loaded once: leave one group");
  }
  const ModelInstanceGroup& group = config.instance_group(0);
  if (group.count() < 0 || group.count() > 1) {
    return Refuse("instance_group[0].count is ", group.count(),
                  "; a version is loaded once, and its requests share batches: "
                  "write 1, and raise max_batch_size for more throughput");
  }
  if (!group.name().empty()) {
    result->notes.emplace_back(
        "instance_group[0].name has no effect: an instance has the name of "
        "its device");
  }
  ASSIGN_OR_RETURN(result->device, DeviceOf(group));
  return absl::OkStatus();
}

absl::StatusOr<VersionChoice> ReadChoice(
    const inference::ModelVersionPolicy& policy) {
  if (policy.has_all()) return VersionChoice{.newest = 0, .specific = {}};
  if (policy.has_latest()) {
    if (policy.latest().num_versions() > 0) {
      return VersionChoice{.newest = policy.latest().num_versions(),
                           .specific = {}};
    }
    return Refuse("version_policy.latest.num_versions is 0; write 1 or more");
  }
  if (!policy.has_specific()) return VersionChoice();
  VersionChoice choice{.newest = 0, .specific = {}};
  for (const int64_t version : policy.specific().versions()) {
    if (version < 1) {
      return Refuse("version_policy.specific.versions has ", version,
                    "; versions begin at 1");
    }
    choice.specific.push_back(static_cast<uint64_t>(version));
  }
  if (choice.specific.empty()) {
    return Refuse(
        "version_policy.specific.versions is empty; name a version, or write "
        "all");
  }
  return choice;
}

absl::Status ReadTransactions(const inference::ModelConfig& config,
                              ConfiguredServing* result) {
  if (!config.model_transaction_policy().decoupled()) return absl::OkStatus();
  if (config.has_sequence_batching()) {
    return Refuse(
        "model_transaction_policy.decoupled is true, but a request of "
        "sequence_batching has one answer: remove one of them");
  }
  if (result->response_cache) {
    return Refuse(
        "response_cache.enable is true, but the responses of a decoupled model "
        "are not kept: remove it, or model_transaction_policy.decoupled");
  }
  result->serving.set_decoupled(true);
  return absl::OkStatus();
}

absl::Status Read(absl::string_view model, const inference::ModelConfig& config,
                  ConfiguredServing* result) {
  RETURN_IF_ERROR(CheckIdentity(model, config));
  RETURN_IF_ERROR(ReadBatching(config, result));
  RETURN_IF_ERROR(ReadGroups(config, result));
  ASSIGN_OR_RETURN(result->versions, ReadChoice(config.version_policy()));
  result->response_cache = config.response_cache().enable();
  RETURN_IF_ERROR(ReadTransactions(config, result));
  if (!result->response_cache || !config.has_sequence_batching()) {
    return absl::OkStatus();
  }
  return Refuse(
      "response_cache.enable is true, but the answers of sequence_batching "
      "depend on earlier requests: remove one of them");
}

}  // namespace

std::vector<uint64_t> VersionChoice::Of(std::vector<uint64_t> numbers) const {
  std::sort(numbers.begin(), numbers.end());
  if (!specific.empty()) {
    std::vector<uint64_t> chosen;
    for (const uint64_t number : numbers) {
      const bool wanted =
          std::find(specific.begin(), specific.end(), number) != specific.end();
      if (wanted) chosen.push_back(number);
    }
    return chosen;
  }
  if (newest > 0 && numbers.size() > newest) {
    numbers.erase(numbers.begin(),
                  numbers.end() - static_cast<std::ptrdiff_t>(newest));
  }
  return numbers;
}

absl::StatusOr<ConfiguredServing> ReadConfiguredServing(
    absl::string_view model, const inference::ModelConfig& config) {
  ConfiguredServing result;
  const absl::Status read = Read(model, config, &result);
  if (read.ok()) return result;
  return Refuse("config.pbtxt: ", read.message());
}

}  // namespace gpupool::server
