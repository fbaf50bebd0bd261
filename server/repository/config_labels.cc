#include "server/repository/config_labels.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/label_check.h"

namespace gpupool::server {
namespace {

using engine::Refuse;

// Line ends are no part of the labels, but of the file.
constexpr uint64_t kMaxFileBytes = kMaxLabelBytes + 2 * uint64_t{kMaxLabels};

absl::Status CheckFileName(const std::string& field, const std::string& file) {
  if (!absl::StrContains(file, '/') && file.front() != '.') {
    return absl::OkStatus();
  }
  return Refuse(field, " is ", Quoted(file),
                "; name a file in the folder of the model");
}

// Adds a label for each line of `text`, whose file `what` names.
absl::Status AddLines(const std::string& what, absl::string_view text,
                      v1::OutputLabels* labels) {
  if (text.empty()) {
    return Refuse(what, " is empty; write one label a line");
  }
  absl::ConsumeSuffix(&text, "\n");
  const std::vector<absl::string_view> lines = absl::StrSplit(text, '\n');
  if (lines.size() > static_cast<size_t>(kMaxLabels)) {
    return Refuse(what, " has ", lines.size(), " lines; the limit is ",
                  kMaxLabels);
  }
  for (size_t i = 0; i < lines.size(); ++i) {
    const absl::string_view line = absl::StripSuffix(lines[i], "\r");
    if (!engine::IsUtf8({line.data(), line.size()})) {
      return Refuse(what, ": line ", i + 1,
                    " is not UTF-8; save the file as UTF-8");
    }
    labels->add_labels(std::string(line));
  }
  return absl::OkStatus();
}

absl::Status ReadAll(const ConfinedFolder& root, absl::string_view model,
                     const inference::ModelConfig& config,
                     v1::ServingOptions* options) {
  for (int i = 0; i < config.output_size(); ++i) {
    const inference::ModelOutput& output = config.output(i);
    if (output.label_filename().empty()) continue;
    const std::string field = absl::StrCat("output[", i, "].label_filename");
    RETURN_IF_ERROR(CheckFileName(field, output.label_filename()));
    const std::string path = absl::StrCat(model, "/", output.label_filename());
    const std::string what = absl::StrCat(field, ": ", path);
    const auto text = root.Read(path, kMaxFileBytes);
    if (!text.ok()) return Refuse(what, " ", text.status().message());
    v1::OutputLabels* const labels = options->add_labels();
    labels->set_output(output.name());
    RETURN_IF_ERROR(AddLines(what, *text, labels));
  }
  return CheckLabels("output", *options);
}

}  // namespace

absl::Status ReadLabels(const ConfinedFolder& root, absl::string_view model,
                        const inference::ModelConfig& config,
                        v1::ServingOptions* options) {
  const absl::Status read = ReadAll(root, model, config, options);
  if (read.ok()) return read;
  return Refuse("config.pbtxt: ", read.message());
}

}  // namespace gpupool::server
