#include "engine/train/checkpoint.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormat[] = "gpupool.checkpoint";
constexpr uint64_t kFormatVersion = 1;
// A checkpoint may be imported from elsewhere, so its manifest is untrusted.
constexpr size_t kMaxManifestBytes = size_t{64} << 20;
constexpr size_t kMaxFiles = 4096;

absl::Status BrokenManifest(absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("checkpoint manifest: ", what));
}

// Returns the whole number of that key, which must be at most `limit`.
absl::StatusOr<uint64_t> Number(const Json& object, const char* key,
                                uint64_t limit) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > limit) {
    return BrokenManifest(
        absl::StrCat("\"", key, "\" is not a whole number of 0 to ", limit));
  }
  return found->get<uint64_t>();
}

absl::StatusOr<std::string> Text(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_string()) {
    return BrokenManifest(absl::StrCat("\"", key, "\" is not a text"));
  }
  return found->get<std::string>();
}

absl::Status ReadModel(const Json& object, v1::ModelSpec* model) {
  const auto found = object.find("model");
  if (found == object.end()) return BrokenManifest("\"model\" is missing");
  // Fields that this version does not know are an error. A model that was read
  // only in part would compute something else.
  const auto status =
      google::protobuf::util::JsonStringToMessage(found->dump(), model);
  if (!status.ok()) {
    return BrokenManifest(
        absl::StrCat("\"model\": ", status.message().ToString()));
  }
  return absl::OkStatus();
}

absl::Status ReadFiles(const Json& object, Manifest& manifest) {
  const auto found = object.find("files");
  if (found == object.end() || !found->is_array() ||
      found->size() > kMaxFiles) {
    return BrokenManifest(absl::StrCat("\"files\" is not an array of at most ",
                                       kMaxFiles, " files"));
  }
  for (const Json& entry : *found) {
    if (!entry.is_object()) return BrokenManifest("a file is not an object");
    CheckpointFile file;
    ASSIGN_OR_RETURN(file.role, Text(entry, "role"));
    ASSIGN_OR_RETURN(file.sha256, Text(entry, "sha256"));
    ASSIGN_OR_RETURN(file.bytes, Number(entry, "bytes", UINT64_MAX));
    if (!IsSha256Hex(file.sha256)) {
      return BrokenManifest(
          "\"sha256\" of a file is not 64 lower-case hex digits");
    }
    // Readers look files up by role. A second file would be ignored silently.
    if (manifest.FindFile(file.role) != nullptr) {
      return BrokenManifest("two files have the same role");
    }
    manifest.files.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> ParseManifest(const Json& object) {
  ASSIGN_OR_RETURN(const std::string format, Text(object, "format"));
  ASSIGN_OR_RETURN(const uint64_t version,
                   Number(object, "format_version", UINT32_MAX));
  if (format != kFormat || version != kFormatVersion) {
    return BrokenManifest(absl::StrCat("format \"", format, "\" version ",
                                       version, " is not known; \"", kFormat,
                                       "\" version ", kFormatVersion, " is"));
  }
  Manifest manifest;
  ASSIGN_OR_RETURN(manifest.job_id, Number(object, "job_id", UINT64_MAX));
  ASSIGN_OR_RETURN(const uint64_t attempt,
                   Number(object, "attempt", UINT32_MAX));
  manifest.attempt = static_cast<uint32_t>(attempt);
  ASSIGN_OR_RETURN(manifest.step, Number(object, "step", UINT64_MAX));
  ASSIGN_OR_RETURN(manifest.epoch, Number(object, "epoch", UINT64_MAX));
  ASSIGN_OR_RETURN(manifest.batch_in_epoch,
                   Number(object, "batch_in_epoch", UINT64_MAX));
  ASSIGN_OR_RETURN(const uint64_t batch_size,
                   Number(object, "batch_size", UINT32_MAX));
  manifest.batch_size = static_cast<uint32_t>(batch_size);
  ASSIGN_OR_RETURN(const std::string seed, Text(object, "seed"));
  if (!absl::SimpleAtoi(seed, &manifest.seed)) {
    return BrokenManifest("\"seed\" is not a decimal number of 64 bits");
  }
  const auto scaling = object.find("input_scaling");
  if (scaling == object.end() || !scaling->is_boolean()) {
    return BrokenManifest("\"input_scaling\" is not true or false");
  }
  manifest.input_scaling = scaling->get<bool>();
  const auto evaluation = object.find("evaluation");
  if (evaluation != object.end()) {
    ASSIGN_OR_RETURN(manifest.evaluation,
                     ParseEvaluationState(evaluation->dump()));
  }
  RETURN_IF_ERROR(ReadModel(object, &manifest.model));
  RETURN_IF_ERROR(ReadFiles(object, manifest));
  return manifest;
}

absl::StatusOr<std::string> ManifestText(const Manifest& manifest) {
  std::string model;
  if (!google::protobuf::util::MessageToJsonString(manifest.model, &model)
           .ok()) {
    return absl::InternalError("a model spec has no JSON form");
  }
  // The order of the keys is fixed: the same manifest must give the same
  // digest.
  Json files = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    files.push_back(
        {{"role", file.role}, {"sha256", file.sha256}, {"bytes", file.bytes}});
  }
  Json object = {{"format", kFormat},
                 {"format_version", kFormatVersion},
                 {"job_id", manifest.job_id},
                 {"attempt", manifest.attempt},
                 {"step", manifest.step},
                 {"epoch", manifest.epoch},
                 {"batch_in_epoch", manifest.batch_in_epoch},
                 // A seed has 64 bits. As a JSON number it would lose digits in
                 // readers that keep doubles.
                 {"seed", absl::StrCat(manifest.seed)},
                 {"batch_size", manifest.batch_size},
                 {"input_scaling", manifest.input_scaling}};
  // Left out when empty, so manifests without evaluations keep their digest.
  if (manifest.evaluation != EvaluationState()) {
    object["evaluation"] = Json::parse(ToJson(manifest.evaluation));
  }
  object["model"] = Json::parse(model, nullptr, false);
  object["files"] = files;
  return object.dump(1) + "\n";
}

std::string TypeText(const TensorFacts& facts) {
  return absl::StrCat(DTypeName(facts.dtype), facts.shape.ToString());
}

bool Converts(DType from, DType to) {
  return from == to || (IsFloating(from) && IsFloating(to));
}

// Returns the views in the order of the tensors.
absl::StatusOr<std::vector<const TensorView*>> Match(
    const std::vector<TensorView>& views,
    const std::vector<TensorFacts>& tensors) {
  std::map<std::string, const TensorView*> by_name;
  for (const TensorView& view : views) by_name[view.facts.name] = &view;
  std::vector<const TensorView*> matched;
  for (const TensorFacts& tensor : tensors) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the weights have no tensor \"", tensor.name,
                       "\"; the model needs ", TypeText(tensor)));
    }
    const TensorFacts& facts = found->second->facts;
    if (!Converts(facts.dtype, tensor.dtype) || facts.shape != tensor.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor \"", facts.name, "\" of the weights is ", TypeText(facts),
          "; the model needs ", TypeText(tensor)));
    }
    matched.push_back(found->second);
    // The tensors that are left at the end are those that the model does not
    // have.
    by_name.erase(found);
  }
  if (!by_name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the weights have a tensor \"", by_name.begin()->first,
                     "\" that the model does not have"));
  }
  return matched;
}

}  // namespace

const CheckpointFile* Manifest::FindFile(absl::string_view role) const {
  for (const CheckpointFile& file : files) {
    if (file.role == role) return &file;
  }
  return nullptr;
}

std::vector<CheckpointFile> ModelFiles(const v1::ModelSpec& model) {
  std::vector<CheckpointFile> files;
  if (model.has_weights()) {
    files.push_back(
        {"initial_weights", model.weights().sha256(), model.weights().bytes()});
  }
  if (!model.has_onnx()) return files;
  // The weights of an ONNX model are in the file or beside it, so the
  // checkpoint needs all of these.
  files.push_back({"onnx", model.onnx().sha256(), model.onnx().bytes()});
  for (const v1::ExternalFile& file : model.onnx().external_files()) {
    files.push_back(
        {absl::StrCat("onnx/", file.location()), file.sha256(), file.bytes()});
  }
  return files;
}

bool FilesHaveWeights(const v1::ModelSpec& model) {
  return model.has_onnx() || model.has_weights();
}

absl::StatusOr<CheckpointFile> WriteTensors(
    const std::string& blob_dir, const std::string& role,
    const std::vector<TensorBytes>& tensors) {
  std::vector<TensorFacts> facts;
  for (const TensorBytes& tensor : tensors) facts.push_back(tensor.facts);
  const std::string header = SafetensorsHeader(facts);
  std::vector<absl::string_view> parts = {header};
  for (const TensorBytes& tensor : tensors) {
    parts.emplace_back(reinterpret_cast<const char*>(tensor.bytes.data()),
                       tensor.bytes.size());
  }
  ASSIGN_OR_RETURN(const WrittenBlob blob, WriteBlob(blob_dir, parts));
  return CheckpointFile{role, blob.sha256, blob.bytes};
}

absl::StatusOr<WrittenBlob> WriteManifest(const std::string& blob_dir,
                                          const Manifest& manifest) {
  ASSIGN_OR_RETURN(const std::string text, ManifestText(manifest));
  ASSIGN_OR_RETURN(WrittenBlob blob,
                   WriteBlob(blob_dir, {absl::string_view(text)}));
  for (const CheckpointFile& file : manifest.files) blob.bytes += file.bytes;
  return blob;
}

absl::StatusOr<Manifest> ReadManifest(const std::string& blob_dir,
                                      const std::string& sha256) {
  ASSIGN_OR_RETURN(const MappedFile file, ReadBlob(blob_dir, sha256));
  if (file.bytes().size() > kMaxManifestBytes) {
    return BrokenManifest(
        absl::StrCat("is longer than ", kMaxManifestBytes, " bytes"));
  }
  // Parses without exceptions: a broken text gives a value that is no object.
  const Json object = Json::parse(file.bytes(), nullptr, false);
  if (!object.is_object()) return BrokenManifest("is not a JSON object");
  return ParseManifest(object);
}

absl::StatusOr<uint64_t> CheckTensors(const std::string& blob_dir,
                                      const std::string& sha256,
                                      const std::vector<TensorFacts>& tensors) {
  ASSIGN_OR_RETURN(const MappedFile file, ReadBlob(blob_dir, sha256));
  ASSIGN_OR_RETURN(
      const std::vector<TensorView> views,
      ParseSafetensors({file.bytes().data(), file.bytes().size()}));
  RETURN_IF_ERROR(Match(views, tensors).status());
  return uint64_t{file.bytes().size()};
}

absl::Status ReadTensors(const std::string& blob_dir, const Manifest& manifest,
                         const std::string& role,
                         const std::vector<TensorBytes>& tensors) {
  const CheckpointFile* entry = manifest.FindFile(role);
  if (entry == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("the checkpoint has no ", role, " file"));
  }
  ASSIGN_OR_RETURN(const MappedFile file, ReadBlob(blob_dir, entry->sha256));
  ASSIGN_OR_RETURN(
      const std::vector<TensorView> views,
      ParseSafetensors({file.bytes().data(), file.bytes().size()}));
  std::vector<TensorFacts> facts;
  for (const TensorBytes& tensor : tensors) facts.push_back(tensor.facts);
  // All tensors are matched before the first byte is copied, so an error leaves
  // them unchanged.
  ASSIGN_OR_RETURN(const std::vector<const TensorView*> matched,
                   Match(views, facts));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const auto& [facts, bytes, rounded_to] = tensors[i];
    const TensorView& from = *matched[i];
    const DType to = rounded_to.value_or(facts.dtype);
    if (from.facts.dtype != to) {
      ConvertElements({from.facts.dtype,
                       reinterpret_cast<const std::byte*>(from.bytes.data())},
                      {to, bytes.data()}, facts.shape.elements());
    } else if (!bytes.empty()) {
      std::memcpy(bytes.data(), from.bytes.data(), bytes.size());
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
