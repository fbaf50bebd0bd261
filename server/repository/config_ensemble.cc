#include "server/repository/config_ensemble.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/limits.pb.h"
#include "server/api/validation/convert.h"
#include "server/serving/ensemble_graph.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

using engine::Refuse;
using inference::ModelEnsembling;

constexpr absl::string_view kPlatform = "ensemble";
constexpr int64_t kNewest = -1;

absl::Status CheckEnsembleIdentity(absl::string_view model,
                                   const inference::ModelConfig& config) {
  if (!config.name().empty() && config.name() != model) {
    return Refuse("name is ", Quoted(config.name()), ", its folder is ",
                  Quoted(model), "; make them equal or remove name");
  }
  if (config.platform() != kPlatform) {
    return Refuse("platform is ", Quoted(config.platform()),
                  ", but ensemble_scheduling is set; write platform: "
                  "\"ensemble\"");
  }
  if (!config.has_ensemble_scheduling()) {
    return Refuse(
        "platform is \"ensemble\", but ensemble_scheduling is not set; write "
        "its steps");
  }
  return absl::OkStatus();
}

// Checks fields that mean something for other models only.
absl::Status CheckUnused(const inference::ModelConfig& config) {
  if (!config.backend().empty()) {
    return Refuse("backend is ", Quoted(config.backend()),
                  "; an ensemble has none: remove it");
  }
  if (!config.default_model_filename().empty()) {
    return Refuse(
        "default_model_filename is set; an ensemble has no file: "
        "remove it");
  }
  if (!config.instance_group().empty()) {
    return Refuse(
        "instance_group is set; an ensemble is on no device: write "
        "the group into the configs of its steps");
  }
  if (config.response_cache().enable()) {
    return Refuse(
        "response_cache.enable is true; the answers of ensembles are "
        "not kept: remove it");
  }
  if (config.model_transaction_policy().decoupled()) {
    return Refuse(
        "model_transaction_policy.decoupled is true; a request of an ensemble "
        "has one answer: remove it");
  }
  for (const inference::ModelOutput& output : config.output()) {
    if (output.label_filename().empty()) continue;
    return Refuse("output ", Quoted(output.name()),
                  ".label_filename is set; an ensemble has the labels of its "
                  "steps: write it into the config of the step");
  }
  if (config.version_policy().has_all() ||
      config.version_policy().has_specific() ||
      config.version_policy().latest().num_versions() > 1) {
    return Refuse(
        "version_policy is set; an ensemble is its config.pbtxt and "
        "has one version, the highest folder: remove it");
  }
  return absl::OkStatus();
}

// Reads an input or an output.
template <typename Configured>
absl::StatusOr<EnsembleTensor> ReadTensor(const char* kind,
                                          const Configured& configured) {
  EnsembleTensor tensor;
  tensor.name = configured.name();
  if (tensor.name.empty()) return Refuse(kind, ".name is empty");
  const std::string& type = inference::DataType_Name(configured.data_type());
  tensor.data_type = ParseDataType(absl::StripPrefix(type, "TYPE_"));
  if (tensor.data_type == v1::DATA_TYPE_UNSPECIFIED) {
    return Refuse(kind, " ", Quoted(tensor.name), ".data_type is ", type,
                  "; write the type of the step's model");
  }
  for (const int64_t size : configured.dims()) {
    if (size < 1 && size != -1) {
      return Refuse(kind, " ", Quoted(tensor.name), ".dims has ", size,
                    "; write a size from 1, or -1 for any size");
    }
    tensor.dims.push_back(size);
  }
  return tensor;
}

absl::StatusOr<EnsembleStep> ReadStep(size_t index,
                                      const ModelEnsembling::Step& configured) {
  const std::string path =
      absl::StrCat("ensemble_scheduling.step[", index, "]");
  RETURN_IF_ERROR(
      CheckName(absl::StrCat(path, ".model_name"), configured.model_name()));
  const int64_t version = configured.model_version();
  if (version < kNewest) {
    return Refuse(path, ".model_version is ", version,
                  "; write a version from 1, or -1 for the newest");
  }
  EnsembleStep step;
  step.model = configured.model_name();
  step.version = version == kNewest ? 0 : static_cast<uint64_t>(version);
  step.inputs = {configured.input_map().begin(), configured.input_map().end()};
  step.outputs = {configured.output_map().begin(),
                  configured.output_map().end()};
  return step;
}

absl::Status ReadNumbers(const inference::ModelConfig& config,
                         EnsembleSpec* spec) {
  if (config.max_batch_size() < 0 ||
      config.max_batch_size() > v1::MAX_SERVED_ROWS) {
    return Refuse("max_batch_size is ", config.max_batch_size(),
                  "; write 0 .. ", static_cast<int>(v1::MAX_SERVED_ROWS));
  }
  spec->max_batch_size = static_cast<uint32_t>(config.max_batch_size());
  const uint32_t in_flight =
      config.ensemble_scheduling().max_inflight_requests();
  if (in_flight > kMostEnsemblesInFlight) {
    return Refuse("ensemble_scheduling.max_inflight_requests is ", in_flight,
                  "; the limit is ", kMostEnsemblesInFlight);
  }
  spec->max_in_flight = in_flight == 0 ? kDefaultEnsemblesInFlight : in_flight;
  return absl::OkStatus();
}

absl::Status FillSpec(const EnsembleFolder& folder,
                      const inference::ModelConfig& config,
                      EnsembleSpec* spec) {
  RETURN_IF_ERROR(CheckEnsembleIdentity(folder.model, config));
  RETURN_IF_ERROR(CheckUnused(config));
  RETURN_IF_ERROR(ReadNumbers(config, spec));
  spec->model = std::string(folder.model);
  spec->version = folder.version;
  for (const inference::ModelInput& input : config.input()) {
    ASSIGN_OR_RETURN(EnsembleTensor tensor, ReadTensor("input", input));
    spec->inputs.push_back(std::move(tensor));
  }
  for (const inference::ModelOutput& output : config.output()) {
    ASSIGN_OR_RETURN(EnsembleTensor tensor, ReadTensor("output", output));
    spec->outputs.push_back(std::move(tensor));
  }
  for (const ModelEnsembling::Step& step :
       config.ensemble_scheduling().step()) {
    ASSIGN_OR_RETURN(EnsembleStep read, ReadStep(spec->steps.size(), step));
    spec->steps.push_back(std::move(read));
  }
  const absl::Status graph = MakeEnsembleGraph(*spec).status();
  if (graph.ok()) return graph;
  return Refuse("ensemble_scheduling: ", graph.message());
}

}  // namespace

bool IsEnsemble(const inference::ModelConfig& config) {
  return config.platform() == kPlatform || config.has_ensemble_scheduling();
}

absl::StatusOr<EnsembleSpec> ReadEnsemble(
    const EnsembleFolder& folder, const inference::ModelConfig& config) {
  EnsembleSpec spec;
  const absl::Status read = FillSpec(folder, config, &spec);
  if (read.ok()) return spec;
  return Refuse("config.pbtxt: ", read.message());
}

}  // namespace gpupool::server
