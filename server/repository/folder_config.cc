#include "server/repository/folder_config.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "server/repository/config_fields.h"
#include "server/repository/model_config_text.h"

namespace gpupool::server {

absl::StatusOr<inference::ModelConfig> ReadFolderConfig(
    const ConfinedFolder& root, const ModelFolder& model) {
  const std::string path = absl::StrCat(model.name, "/", kConfigFileName);
  if (!model.config_error.empty()) {
    return engine::Refuse(path, " ", model.config_error);
  }
  inference::ModelConfig config;
  if (!model.config.has_value()) return config;
  const auto text = root.Read(path, kMaxConfigBytes);
  if (!text.ok()) return engine::Refuse(path, " ", text.status().message());
  ASSIGN_OR_RETURN(config, ParseModelConfig(*text));
  RETURN_IF_ERROR(CheckConfigFields(config));
  return config;
}

}  // namespace gpupool::server
