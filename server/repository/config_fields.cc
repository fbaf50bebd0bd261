#include "server/repository/config_fields.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/refuse.h"

namespace gpupool::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr size_t kMostRefusals = 8;

// Paths that are carried out. A message is here with those of its fields that
// are.
constexpr absl::string_view kKnown[] = {
    "name",
    "platform",
    "backend",
    "max_batch_size",
    "default_model_filename",
    "version_policy",
    "version_policy.latest",
    "version_policy.latest.num_versions",
    "version_policy.all",
    "version_policy.specific",
    "version_policy.specific.versions",
    "input",
    "input.name",
    "input.data_type",
    "input.dims",
    "output",
    "output.name",
    "output.data_type",
    "output.dims",
    "output.label_filename",
    "instance_group",
    "instance_group.name",
    "instance_group.kind",
    "instance_group.count",
    "instance_group.gpus",
    "dynamic_batching",
    "dynamic_batching.preferred_batch_size",
    "dynamic_batching.max_queue_delay_microseconds",
    "dynamic_batching.preserve_ordering",
    "dynamic_batching.default_queue_policy",
    "dynamic_batching.default_queue_policy.allow_timeout_override",
    "dynamic_batching.default_queue_policy.max_queue_size",
    "sequence_batching",
    "sequence_batching.max_sequence_idle_microseconds",
    "sequence_batching.control_input",
    "sequence_batching.control_input.name",
    "sequence_batching.control_input.control",
    "sequence_batching.control_input.control.kind",
    "sequence_batching.control_input.control.int32_false_true",
    "sequence_batching.control_input.control.fp32_false_true",
    "sequence_batching.control_input.control.data_type",
    "sequence_batching.control_input.control.bool_false_true",
    "sequence_batching.direct",
    "sequence_batching.direct.max_queue_delay_microseconds",
    "sequence_batching.direct.minimum_slot_utilization",
    "sequence_batching.oldest",
    "sequence_batching.oldest.max_candidate_sequences",
    "sequence_batching.oldest.preferred_batch_size",
    "sequence_batching.oldest.max_queue_delay_microseconds",
    "sequence_batching.oldest.preserve_ordering",
    "sequence_batching.state",
    "sequence_batching.state.input_name",
    "sequence_batching.state.output_name",
    "sequence_batching.state.data_type",
    "sequence_batching.state.dims",
    "sequence_batching.state.initial_state",
    "sequence_batching.state.initial_state.data_type",
    "sequence_batching.state.initial_state.dims",
    "sequence_batching.state.initial_state.zero_data",
    "sequence_batching.state.initial_state.data_file",
    "sequence_batching.state.initial_state.name",
    "ensemble_scheduling",
    "ensemble_scheduling.step",
    "ensemble_scheduling.step.model_name",
    "ensemble_scheduling.step.model_version",
    "ensemble_scheduling.step.input_map",
    "ensemble_scheduling.step.output_map",
    "ensemble_scheduling.max_inflight_requests",
    "model_transaction_policy",
    "model_transaction_policy.decoupled",
    "response_cache",
    "response_cache.enable",
};

struct Remedy {
  absl::string_view path;
  absl::string_view text;
};

constexpr absl::string_view kRemove = "remove it";

// Remedies for refused fields, by path.
constexpr Remedy kRemedies[] = {
    {"sequence_batching.state.use_same_buffer_for_input_output",
     "remove it; states are kept in the server's memory"},
    {"sequence_batching.state.use_growable_memory",
     "remove it; a state has one size"},
    {"sequence_batching.iterative_sequence",
     "remove it; a request is computed once"},
    {"ensemble_scheduling.step.model_namespace",
     "remove it; every model has one name"},
    {"optimization",
     "remove it; the graph compiler optimizes every model by itself"},
    {"parameters",
     "remove it; no parameter of another back end has an effect here"},
    {"model_warmup", "remove it; every version runs once before it is stored"},
    {"model_operations",
     "remove it; operators cannot be loaded from a library"},
    {"model_repository_agents",
     "remove it; check and unpack files before they are put into the folder"},
    {"runtime", "remove it; every model runs in gpupool's own engine"},
    {"metric_tags", "remove it; series have the labels model and version"},
    {"model_metrics", "remove it; buckets of histograms are fixed"},
    {"cc_model_filenames", "remove it; one file serves every kind of GPU"},
    {"batch_input", "pass the tensor as an input of the request"},
    {"batch_output", "return the rows as an output of the model"},
    {"input.format", "remove it; dims say all that is needed"},
    {"input.reshape", "add a Reshape node to the model"},
    {"output.reshape", "add a Reshape node to the model"},
    {"input.allow_ragged_batch", "pad the requests to one size"},
    {"input.optional", "send the input with every request"},
    {"instance_group.rate_limiter",
     "remove it; placements are limited by the bytes that a version needs"},
    {"instance_group.passive", "remove the group"},
    {"instance_group.host_policy",
     "remove it; --devices gives each device its share of the cores"},
    {"dynamic_batching.priority_levels",
     "remove it; requests are served in the order in which they come"},
    {"dynamic_batching.default_priority_level",
     "remove it; requests are served in the order in which they come"},
    {"dynamic_batching.priority_queue_policy",
     "write default_queue_policy; a version has one queue"},
    {"dynamic_batching.default_queue_policy.timeout_action",
     "remove it; a request whose time is over is rejected"},
    {"dynamic_batching.default_queue_policy.default_timeout_microseconds",
     "let clients send a deadline with each request"},
};

absl::string_view RemedyFor(absl::string_view path) {
  const auto* found =
      std::find_if(std::begin(kRemedies), std::end(kRemedies),
                   [&](const Remedy& remedy) { return remedy.path == path; });
  return found == std::end(kRemedies) ? kRemove : found->text;
}

bool IsKnown(absl::string_view path) {
  return std::find(std::begin(kKnown), std::end(kKnown), path) !=
         std::end(kKnown);
}

// A place in the message: the path as people read it, with indices, and the
// path of its row in the tables.
struct Place {
  std::string shown;
  std::string row;

  Place Field(const std::string& name) const {
    if (shown.empty()) return {name, name};
    return {absl::StrCat(shown, ".", name), absl::StrCat(row, ".", name)};
  }
  Place Item(int index) const {
    return {absl::StrCat(shown, "[", index, "]"), row};
  }
};

void FindRefused(const Message& message, const Place& at,
                 std::vector<std::string>* refused);

// Looks into the messages of a known field.
void FindInside(const Message& message, const FieldDescriptor* field,
                const Place& at, std::vector<std::string>* refused) {
  const auto* reflection = message.GetReflection();
  if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) return;
  if (field->is_map()) return;  // its keys are names
  if (!field->is_repeated()) {
    return FindRefused(reflection->GetMessage(message, field), at, refused);
  }
  for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
    FindRefused(reflection->GetRepeatedMessage(message, field, i), at.Item(i),
                refused);
  }
}

void FindRefused(const Message& message, const Place& at,
                 std::vector<std::string>* refused) {
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (refused->size() == kMostRefusals) return;
    const Place place = at.Field(field->name());
    if (IsKnown(place.row)) {
      FindInside(message, field, place, refused);
    } else {
      refused->push_back(absl::StrCat(place.shown, " is not supported; ",
                                      RemedyFor(place.row)));
    }
  }
}

}  // namespace

absl::Status CheckConfigFields(const inference::ModelConfig& config) {
  std::vector<std::string> refused;
  FindRefused(config, {}, &refused);
  if (refused.empty()) return absl::OkStatus();
  return engine::Refuse("config.pbtxt: ", absl::StrJoin(refused, ". "));
}

}  // namespace gpupool::server
