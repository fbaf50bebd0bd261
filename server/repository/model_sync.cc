#include "server/repository/model_sync.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "google/protobuf/util/message_differencer.h"
#include "server/api/validation/job_spec_check.h"
#include "server/repository/config_ensemble.h"
#include "server/repository/config_labels.h"
#include "server/repository/config_options.h"
#include "server/repository/config_repeat.h"
#include "server/repository/config_sequences.h"
#include "server/repository/config_tensors.h"
#include "server/repository/folder_config.h"
#include "server/repository/model_files.h"
#include "server/serving/decoupled/repeat_models.h"
#include "server/serving/ensembles.h"

namespace gpupool::server {
namespace {

using google::protobuf::util::MessageDifferencer;

bool IsServed(const v1::ModelVersion& version) {
  return version.state() == v1::READY || version.state() == v1::LOADING;
}

// Returns true for errors that say nothing about the files.
bool IsPassing(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsAborted(status) ||
         absl::IsResourceExhausted(status);
}

// Returns an error when answers are to be kept and there is no cache.
absl::Status CheckCaching(const ConfiguredServing& options,
                          const SetCaching& set_caching) {
  if (!options.response_cache || set_caching) return absl::OkStatus();
  return engine::Refuse(
      "config.pbtxt: response_cache.enable is true, but the server has no "
      "response cache; start it with --response-cache-bytes 256MiB, or remove "
      "the field");
}

// Returns the highest folder of a version, with files or without; 0: none.
uint64_t HighestFolder(const ModelFolder& model) {
  uint64_t number = 0;
  if (!model.empty_versions.empty()) number = model.empty_versions.back();
  if (!model.versions.empty()) {
    number = std::max(number, model.versions.back().number);
  }
  return number;
}

}  // namespace

// Everything that decides how a model is brought.
struct ModelSync::Wish {
  ConfinedFolder root;
  inference::ModelConfig config;
  ConfiguredServing options;
  std::vector<v1::ModelVersion> stored;  // of all models
};

absl::Status SyncResult::First() const {
  if (!config.ok()) return config;
  for (const auto& [number, status] : versions) {
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

bool SyncResult::MayPass() const {
  return IsPassing(config) ||
         std::any_of(versions.begin(), versions.end(),
                     [](const auto& entry) { return IsPassing(entry.second); });
}

SyncResult ModelSync::Bring(const ModelFolder& model) {
  SyncResult result;
  const absl::StatusOr<Wish> wish = ReadWish(model);
  result.config = wish.status();
  if (!wish.ok()) return result;
  if (options_.repeats != nullptr && !IsRepeat(wish->config)) {
    options_.repeats->Remove(model.name, [] {});
  }
  if (IsEnsemble(wish->config)) {
    BringEnsemble(model, wish->config, &result);
    return result;
  }
  if (options_.ensembles != nullptr) {
    options_.ensembles->Remove(model.name, [] {});
  }
  if (IsRepeat(wish->config)) {
    BringRepeat(model, wish->config, &result);
    return result;
  }
  if (options_.set_caching) {
    options_.set_caching(model.name, wish->options.response_cache);
  }
  BringVersions(model, *wish, &result);
  return result;
}

absl::StatusOr<ModelSync::Wish> ModelSync::ReadWish(const ModelFolder& model) {
  ASSIGN_OR_RETURN(ConfinedFolder root, ConfinedFolder::Open(model.root));
  ASSIGN_OR_RETURN(inference::ModelConfig config,
                   ReadFolderConfig(root, model));
  if (IsEnsemble(config) || IsRepeat(config)) {
    return Wish{std::move(root), std::move(config), {}, {}};
  }
  ASSIGN_OR_RETURN(ConfiguredServing options,
                   ReadConfiguredServing(model.name, config));
  RETURN_IF_ERROR(CheckCaching(options, options_.set_caching));
  if (config.has_sequence_batching()) {
    RETURN_IF_ERROR(ReadInitialStates(root, model.name, config,
                                      options.serving.mutable_sequences()));
  }
  RETURN_IF_ERROR(ReadLabels(root, model.name, config, &options.serving));
  ASSIGN_OR_RETURN(std::vector<v1::ModelVersion> stored,
                   options_.calls->Versions());
  return Wish{std::move(root), std::move(config), std::move(options),
              std::move(stored)};
}

void ModelSync::BringVersions(const ModelFolder& model, const Wish& wish,
                              SyncResult* result) {
  result->notes = wish.options.notes;
  for (const uint64_t number : model.empty_versions) {
    result->notes.push_back(
        absl::StrCat("the folder of version ", number,
                     " is empty; only an ensemble and a model "
                     "of the back end repeat have no file "
                     "model.onnx"));
  }
  std::vector<uint64_t> numbers;
  for (const VersionFolder& version : model.versions) {
    numbers.push_back(version.number);
  }
  for (const uint64_t wanted : wish.options.versions.specific) {
    if (std::find(numbers.begin(), numbers.end(), wanted) != numbers.end()) {
      continue;
    }
    result->notes.push_back(
        absl::StrCat("version_policy.specific.versions has ", wanted,
                     ", which is not in the folder"));
  }
  const std::vector<uint64_t> chosen = wish.options.versions.Of(numbers);
  for (const VersionFolder& version : model.versions) {
    if (!std::binary_search(chosen.begin(), chosen.end(), version.number)) {
      continue;
    }
    result->versions[version.number] = BringVersion(model, version, wish);
  }
}

void ModelSync::BringEnsemble(const ModelFolder& model,
                              const inference::ModelConfig& config,
                              SyncResult* result) {
  const uint64_t number = HighestFolder(model);
  if (number == 0) {
    result->config = engine::Refuse(
        "an ensemble needs a folder of a version, which may be empty; make ",
        model.name, "/1");
    return;
  }
  const auto spec =
      ReadEnsemble({.model = model.name, .version = number}, config);
  result->config = spec.status();
  if (!spec.ok()) return;
  if (options_.ensembles == nullptr) {
    result->config = absl::UnimplementedError("ensembles are not served");
    return;
  }
  if (options_.set_caching) options_.set_caching(model.name, false);
  result->is_ensemble = true;
  result->versions[number] = options_.ensembles->Define(*spec);
}

void ModelSync::BringRepeat(const ModelFolder& model,
                            const inference::ModelConfig& config,
                            SyncResult* result) {
  result->config = CheckRepeatConfig(model.name, config);
  if (!result->config.ok()) return;
  const uint64_t number = HighestFolder(model);
  if (number == 0) {
    result->config = engine::Refuse(
        "a model of the back end repeat needs a folder of a version, which may "
        "be empty; make ",
        model.name, "/1");
    return;
  }
  if (options_.repeats == nullptr) {
    result->config =
        absl::UnimplementedError("the back end repeat is not served");
    return;
  }
  if (options_.set_caching) options_.set_caching(model.name, false);
  result->is_repeat = true;
  result->versions[number] = options_.repeats->Define(model.name, number);
}

void ModelSync::ResumeCaching(const ModelFolder& model) {
  if (!options_.set_caching) return;
  const auto root = ConfinedFolder::Open(model.root);
  if (!root.ok()) return;
  const auto config = ReadFolderConfig(*root, model);
  if (config.ok() && config->response_cache().enable()) {
    options_.set_caching(model.name, true);
  }
}

absl::Status ModelSync::BringVersion(const ModelFolder& model,
                                     const VersionFolder& version,
                                     const Wish& wish) {
  const VersionFiles files{
      .root = &wish.root,
      .folder = absl::StrCat(model.name, "/", version.number),
      .version = &version,
      .limit_bytes = options_.file_limit_bytes,
      .stop = options_.stop};
  ASSIGN_OR_RETURN(const v1::ModelSpec spec, SpecOfFiles(files));
  RETURN_IF_ERROR(CheckModelSpec("the folder", spec));
  const auto same = [&](const v1::ModelVersion& row) {
    return row.model() == model.name && row.version() == version.number &&
           MessageDifferencer::Equals(row.spec(), spec) &&
           MessageDifferencer::Equals(row.serving(), wish.options.serving);
  };
  const auto stored =
      std::find_if(wish.stored.begin(), wish.stored.end(), same);
  if (stored != wish.stored.end()) return LoadStored(*stored, wish);
  RETURN_IF_ERROR(StoreFiles(files, spec, *options_.blobs));
  const bool replaces = std::any_of(
      wish.stored.begin(), wish.stored.end(), [&](const v1::ModelVersion& row) {
        return IsServed(row) && row.model() == model.name &&
               row.version() == version.number;
      });
  const ReplacedVersions::Mark mark(replaces ? options_.replaced : nullptr,
                                    model.name, version.number);
  RepositoryImport import{.number = version.number,
                          .device = wish.options.device};
  import.model.set_name(model.name);
  *import.model.mutable_spec() = spec;
  *import.model.mutable_serving() = wish.options.serving;
  import.check = [config = wish.config](const v1::ModelVersion& planned) {
    return CheckConfigTensors(config, planned.plan());
};
return options_.calls->Import(import);
}  // namespace gpupool::server

absl::Status ModelSync::LoadStored(const v1::ModelVersion& row,
                                   const Wish& wish) {
  RETURN_IF_ERROR(CheckConfigTensors(wish.config, row.plan()));
  // A served version does not move.
  const bool moves =
      IsServed(row) && row.wanted_device() != wish.options.device;
  const ReplacedVersions::Mark mark(moves ? options_.replaced : nullptr,
                                    row.model(), row.version());
  if (moves) {
    RETURN_IF_ERROR(options_.calls->Unload(row.model(), row.version()));
  }
  return options_.calls->Load(row.model(), row.version(), wish.options.device);
}

absl::Status ModelSync::UnloadOthers(const ModelFolder& model,
                                     const std::vector<uint64_t>& chosen,
                                     bool all_served) {
  ASSIGN_OR_RETURN(const std::vector<v1::ModelVersion> stored,
                   options_.calls->Versions());
  absl::Status first;
  for (const v1::ModelVersion& row : stored) {
    if (row.model() != model.name || !IsServed(row)) continue;
    const uint64_t number = row.version();
    if (std::find(chosen.begin(), chosen.end(), number) != chosen.end()) {
      continue;
    }
    const bool in_folder =
        std::any_of(model.versions.begin(), model.versions.end(),
                    [&](const VersionFolder& v) { return v.number == number; });
    if (in_folder && !all_served) continue;
    first.Update(options_.calls->Unload(row.model(), number));
  }
  return first;
}

}  // namespace gpupool::server
