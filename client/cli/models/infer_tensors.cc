#include "client/cli/models/infer_tensors.h"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/models/model_view.h"
#include "client/cli/output/table.h"
#include "client/files/tensor_file.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::client {
namespace {

using inference::ModelMetadataResponse;

absl::StatusOr<std::string> TypeOf(const ModelMetadataResponse& metadata,
                                   const std::string& input) {
  std::vector<std::string> names;
  for (const auto& tensor : metadata.inputs()) {
    if (tensor.name() == input) return tensor.datatype();
    names.push_back(tensor.name());
  }
  return absl::InvalidArgumentError(
      absl::StrCat("model '", metadata.name(), "' has no input '", input,
                   "'; it takes ", absl::StrJoin(names, ", ")));
}

absl::StatusOr<inference::ModelInferRequest> MakeRequest(
    const TensorOptions& options, const ModelMetadataResponse& metadata) {
  inference::ModelInferRequest request;
  for (const std::string& text : options.inputs) {
    const std::pair<std::string, std::string> parts =
        absl::StrSplit(text, absl::MaxSplits('=', 1));
    if (parts.first.empty() || parts.second.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--input ", text, ": write NAME=FILE, for example ids=ids.npy"));
    }
    const absl::StatusOr<std::string> type = TypeOf(metadata, parts.first);
    if (!type.ok()) return type.status();
    absl::StatusOr<Tensor> tensor = ReadTensorFile(parts.second, *type);
    if (!tensor.ok()) return tensor.status();
    auto& input = *request.add_inputs();
    input.set_name(parts.first);
    input.set_datatype(tensor->data_type);
    for (int64_t size : tensor->shape) input.add_shape(size);
    *request.add_raw_input_contents() = std::move(tensor->bytes);
  }
  return request;
}

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

std::vector<NamedTensor> OutputsOf(
    const inference::ModelInferResponse& answer) {
  std::vector<NamedTensor> outputs;
  for (int i = 0; i < answer.outputs_size(); ++i) {
    const auto& output = answer.outputs(i);
    outputs.push_back({output.name(),
                       {output.datatype(),
                        {output.shape().begin(), output.shape().end()},
                        answer.raw_output_contents(i)}});
  }
  return outputs;
}

void PrintOutputs(std::ostream& out, const std::vector<NamedTensor>& outputs) {
  std::string separator = "{";
  for (const auto& [name, tensor] : outputs) {
    out << separator << "\"" << name << "\": " << JsonText(tensor);
    separator = ",\n ";
  }
  out << "}\n";
}

std::string PathOf(const std::string& folder, const std::string& output) {
  return absl::StrCat(folder, "/", absl::StrReplaceAll(output, {{"/", "_"}}),
                      ".npy");
}

absl::Status SaveOutputs(const std::string& folder,
                         const std::vector<NamedTensor>& outputs) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    return absl::NotFoundError(absl::StrCat("cannot make the folder ", folder,
                                            ": ", failed.message()));
  }
  for (const auto& [name, tensor] : outputs) {
    if (ElementBytes(tensor.data_type) == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "output '", name, "' is ", tensor.data_type,
          ", which .npy files do not have; leave --save out to print "
          "it"));
    }
    const std::string path = PathOf(folder, name);
    std::ofstream file(path, std::ios::binary);
    file << NpyText(tensor);
    if (file.flush()) continue;
    return absl::NotFoundError(absl::StrCat(
        "cannot write ", path, "; check the free space and your permissions"));
  }
  return absl::OkStatus();
}

void PrintSaved(const Context& context, const std::string& folder,
                const std::vector<NamedTensor>& outputs) {
  if (context.options().output != OutputFormat::kTable) {
    // JSON is YAML, so one form serves both.
    nlohmann::ordered_json json;
    for (const auto& [name, tensor] : outputs) {
      json["saved"].push_back({{"output", name},
                               {"datatype", tensor.data_type},
                               {"shape", tensor.shape},
                               {"file", PathOf(folder, name)}});
    }
    *context.out().stream << json.dump(2) << "\n";
    return;
  }
  Table table({{"OUTPUT"}, {"TYPE"}, {"SHAPE"}, {"FILE"}});
  for (const auto& [name, tensor] : outputs) {
    table.AddRow({name, tensor.data_type,
                  absl::StrCat("[", absl::StrJoin(tensor.shape, ","), "]"),
                  PathOf(folder, name)});
  }
  table.Print(context.out(), context.headers());
}

}  // namespace

int InferTensors(Context& context, const TensorOptions& options) {
  const absl::StatusOr<VersionName> name = ParseVersionName(options.model);
  if (!name.ok()) return context.Fail(name.status());
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  inference::ModelMetadataRequest ask;
  ask.set_name(name->model);
  if (name->version > 0) ask.set_version(absl::StrCat(name->version));
  const auto metadata = (*client)->ModelMetadata(ask);
  if (!metadata.ok()) return context.Fail(metadata.status());
  auto request = MakeRequest(options, *metadata);
  if (!request.ok()) return context.Fail(request.status());
  request->set_model_name(ask.name());
  request->set_model_version(ask.version());
  const auto answer = (*client)->ModelInfer(*request);
  if (!answer.ok()) return context.Fail(answer.status());
  const std::vector<NamedTensor> outputs = OutputsOf(*answer);
  if (options.save.empty()) {
    PrintOutputs(*context.out().stream, outputs);
    return kOk;
  }
  const absl::Status saved = SaveOutputs(options.save, outputs);
  if (!saved.ok()) return context.Fail(saved);
  PrintSaved(context, options.save, outputs);
  return kOk;
}

}  // namespace gpupool::client
