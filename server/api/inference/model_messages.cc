#include "server/api/inference/model_messages.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

constexpr char kPlatform[] = "gpupool_graph";
constexpr char kBackend[] = "gpupool";
constexpr char kEnsemble[] = "ensemble";

using TensorMetadata = inference::ModelMetadataResponse::TensorMetadata;

void FillTensor(const TensorFormat& format, TensorMetadata* tensor) {
  tensor->set_name(format.name);
  tensor->set_datatype(std::string(DataTypeName(format.data_type)));
  for (int64_t size : format.DeclaredShape()) tensor->add_shape(size);
}

// Returns the type of the model configuration.
inference::DataType ConfigType(v1::DataType type) {
  inference::DataType config_type = inference::TYPE_INVALID;
  inference::DataType_Parse(ConfigTypeName(type), &config_type);
  return config_type;
}

// Fills in type and dims of an input, an output or a state.
template <typename Tensor>
void FillConfigTensor(const TensorFormat& format, Tensor* tensor) {
  tensor->set_data_type(ConfigType(format.data_type));
  const std::vector<int64_t> shape = format.DeclaredShape();
  // A configuration's dims leave the batch dimension out.
  for (size_t i = format.batched ? 1 : 0; i < shape.size(); ++i) {
    tensor->add_dims(shape[i]);
  }
}

void FillStage(const StageSum& sum, inference::StatisticDuration* duration) {
  duration->set_count(sum.count);
  duration->set_ns(sum.nanos);
}

bool IsGpu(absl::string_view device) {
  return absl::StartsWith(device, "cuda:");
}

// Returns N of the device "cpu:N" or "cuda:N".
int32_t IndexOf(absl::string_view device) {
  int32_t index = 0;
  return absl::SimpleAtoi(device.substr(device.rfind(':') + 1), &index) ? index
                                                                        : 0;
}

const char* PlatformOf(const ServedVersion& version) {
  if (version.ensemble() != nullptr) return kEnsemble;
  const std::string& own = version.facts().own_backend;
  return own.empty() ? kPlatform : own.c_str();
}

void FillEnsemble(const EnsembleSpec& spec,
                  inference::ModelEnsembling* scheduling) {
  for (const EnsembleStep& step : spec.steps) {
    inference::ModelEnsembling::Step* filled = scheduling->add_step();
    filled->set_model_name(step.model);
    filled->set_model_version(
        step.version == 0 ? -1 : static_cast<int64_t>(step.version));
    filled->mutable_input_map()->insert(step.inputs.begin(), step.inputs.end());
    filled->mutable_output_map()->insert(step.outputs.begin(),
                                         step.outputs.end());
  }
  scheduling->set_max_inflight_requests(spec.max_in_flight);
}

void FillInstance(const ServedVersion& version,
                  inference::ModelInstanceGroup* group) {
  const std::string device = version.device();
  group->set_name(device);
  group->set_count(1);
  group->set_kind(IsGpu(device) ? inference::ModelInstanceGroup::KIND_GPU
                                : inference::ModelInstanceGroup::KIND_CPU);
  if (IsGpu(device)) group->add_gpus(IndexOf(device));
}

void FillBatching(const VersionFacts& facts,
                  inference::ModelDynamicBatching* batching) {
  batching->set_max_queue_delay_microseconds(
      absl::ToInt64Microseconds(facts.max_queue_delay));
  // A batch that is computed again may be overtaken.
  batching->set_preserve_ordering(false);
  inference::ModelQueuePolicy* queue = batching->mutable_default_queue_policy();
  queue->set_allow_timeout_override(true);
  queue->set_max_queue_size(facts.max_queue_size);
}

using SequenceControl = v1::SequenceOptions::Control;
using ConfiguredControl = inference::ModelSequenceBatching::Control;

ConfiguredControl::Kind ControlKind(SequenceControl::Kind kind) {
  switch (kind) {
    case SequenceControl::READY:
      return ConfiguredControl::CONTROL_SEQUENCE_READY;
    case SequenceControl::END:
      return ConfiguredControl::CONTROL_SEQUENCE_END;
    case SequenceControl::ID:
      return ConfiguredControl::CONTROL_SEQUENCE_CORRID;
    default:
      return ConfiguredControl::CONTROL_SEQUENCE_START;
  }
}

void FillControl(const SequenceControl& control, v1::DataType type,
                 ConfiguredControl* filled) {
  filled->set_kind(ControlKind(control.kind()));
  for (const double value : {control.false_value(), control.true_value()}) {
    if (control.kind() == SequenceControl::ID) {
      filled->set_data_type(ConfigType(type));
    } else if (type == v1::INT32) {
      filled->add_int32_false_true(static_cast<int32_t>(value));
    } else if (type == v1::BOOL) {
      filled->add_bool_false_true(value != 0);
    } else {
      filled->add_fp32_false_true(static_cast<float>(value));
    }
  }
}

void FillSequences(const VersionFacts& facts,
                   inference::ModelSequenceBatching* batching) {
  const SequencePlan& plan = *facts.sequences;
  batching->set_max_sequence_idle_microseconds(
      static_cast<uint64_t>(absl::ToInt64Microseconds(plan.max_idle)));
  const auto delay =
      static_cast<uint64_t>(absl::ToInt64Microseconds(facts.max_queue_delay));
  if (plan.options.direct()) {
    batching->mutable_direct()->set_max_queue_delay_microseconds(delay);
    batching->mutable_direct()->set_minimum_slot_utilization(
        static_cast<float>(plan.options.enough_requests()) /
        static_cast<float>(facts.max_batch_size));
  } else {
    batching->mutable_oldest()->set_max_queue_delay_microseconds(delay);
    batching->mutable_oldest()->set_max_candidate_sequences(
        static_cast<int32_t>(plan.max_sequences));
  }
  for (int i = 0; i < plan.options.controls_size(); ++i) {
    const SequenceControl& control = plan.options.controls(i);
    auto* input = batching->add_control_input();
    input->set_name(control.input());
    FillControl(control, plan.controls[static_cast<size_t>(i)].data_type,
                input->add_control());
  }
  for (int i = 0; i < plan.options.states_size(); ++i) {
    const TensorFormat& format =
        plan.outputs[plan.states[static_cast<size_t>(i)].output];
    auto* state = batching->add_state();
    FillConfigTensor(format, state);
    state->set_input_name(plan.options.states(i).input());
    state->set_output_name(format.name);
  }
}

}  // namespace

void FillMetadata(const ServedVersion& version,
                  inference::ModelMetadataResponse* response) {
  const VersionFacts& facts = version.facts();
  response->set_name(facts.model);
  response->set_platform(PlatformOf(version));
  for (const TensorFormat& format : facts.inputs) {
    FillTensor(format, response->add_inputs());
  }
  for (const TensorFormat& format : facts.outputs) {
    FillTensor(format, response->add_outputs());
  }
}

void FillConfig(const ServedVersion& version, inference::ModelConfig* config) {
  const VersionFacts& facts = version.facts();
  config->set_name(facts.model);
  config->set_platform(PlatformOf(version));
  // A new version unloads the older ones when it is ready. Versions that are
  // loaded by hand stay beside it.
  config->mutable_version_policy()->mutable_latest()->set_num_versions(1);
  // 0 tells clients that shapes have no batch dimension.
  config->set_max_batch_size(
      facts.batched ? static_cast<int32_t>(facts.max_batch_size) : 0);
  for (const TensorFormat& format : facts.inputs) {
    inference::ModelInput* input = config->add_input();
    input->set_name(format.name);
    FillConfigTensor(format, input);
  }
  for (const TensorFormat& format : facts.outputs) {
    inference::ModelOutput* output = config->add_output();
    output->set_name(format.name);
    FillConfigTensor(format, output);
  }
  if (version.ensemble() != nullptr) {
    FillEnsemble(*version.ensemble(), config->mutable_ensemble_scheduling());
  } else if (!version.has_batcher()) {
    config->set_backend(facts.own_backend);
  } else {
    config->set_backend(kBackend);
    FillInstance(version, config->add_instance_group());
    if (facts.sequences == nullptr) {
      FillBatching(facts, config->mutable_dynamic_batching());
    } else {
      FillSequences(facts, config->mutable_sequence_batching());
    }
  }
  config->mutable_model_transaction_policy()->set_decoupled(facts.decoupled);
  if (version.cache() != nullptr) {
    config->mutable_response_cache()->set_enable(true);
  }
}

void FillStatistics(const ServedVersion& version,
                    inference::ModelStatistics* statistics) {
  const VersionFacts& facts = version.facts();
  const StatisticsSnapshot snapshot =
      version.executor().statistics().Snapshot();
  statistics->set_name(facts.model);
  statistics->set_version(std::to_string(facts.version));
  statistics->set_last_inference(snapshot.last_inference_unix_millis);
  statistics->set_inference_count(snapshot.rows);
  statistics->set_execution_count(snapshot.batches);
  inference::InferStatistics* stages = statistics->mutable_inference_stats();
  FillStage(snapshot.success, stages->mutable_success());
  FillStage(snapshot.fail, stages->mutable_fail());
  FillStage(snapshot.queue, stages->mutable_queue());
  FillStage(snapshot.copy_in, stages->mutable_compute_input());
  FillStage(snapshot.compute, stages->mutable_compute_infer());
  FillStage(snapshot.copy_out, stages->mutable_compute_output());
  FillStage(snapshot.cache_hit, stages->mutable_cache_hit());
  FillStage(snapshot.cache_miss, stages->mutable_cache_miss());
  for (const BatchSizeStatistics& size : snapshot.batch_sizes) {
    inference::InferBatchStatistics* batch = statistics->add_batch_stats();
    batch->set_batch_size(size.rows);
    FillStage(size.copy_in, batch->mutable_compute_input());
    FillStage(size.compute, batch->mutable_compute_infer());
    FillStage(size.copy_out, batch->mutable_compute_output());
  }
  for (const ResponseStatistics& of : snapshot.responses) {
    inference::InferResponseStatistics& response =
        (*statistics->mutable_response_stats())[std::to_string(of.index)];
    FillStage(of.compute, response.mutable_compute_infer());
    FillStage(of.copy_out, response.mutable_compute_output());
    FillStage(of.success, response.mutable_success());
    FillStage(of.fail, response.mutable_fail());
    FillStage(of.empty, response.mutable_empty_response());
    FillStage(of.cancel, response.mutable_cancel());
  }
  if (facts.bytes > 0) {
    const std::string device = version.device();
    inference::MemoryUsage* memory = statistics->add_memory_usage();
    memory->set_type(IsGpu(device) ? "GPU" : "CPU");
    memory->set_id(IndexOf(device));
    memory->set_byte_size(facts.bytes);
  }
}

void FillIndex(const v1::ModelVersion& version, bool ready,
               inference::RepositoryIndexResponse::ModelIndex* index) {
  index->set_name(version.model());
  index->set_version(std::to_string(version.version()));
  if (ready) {
    index->set_state("READY");
    return;
  }
  switch (version.state()) {
    case v1::READY:  // stored as ready; its worker restarts
    case v1::LOADING:
      index->set_state("LOADING");
      break;
    case v1::UNLOADING:
      index->set_state("UNLOADING");
      break;
    default:
      index->set_state("UNAVAILABLE");
      index->set_reason(version.error().empty() ? "unloaded" : version.error());
  }
}

}  // namespace gpupool::server
