#include "engine/import/onnx/graph/needed_inputs.h"

#include <algorithm>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/import/onnx/graph/onnx_import.h"

namespace gpupool::engine::onnx_import {
namespace {

constexpr char kPayload[] = "gpupool.engine.onnx.needed_inputs";

}  // namespace

// Makes the error. Its text names the first few inputs. Its payload names all,
// separated by line breaks, which names never contain.
absl::Status NeedsInputs(absl::string_view title, absl::string_view what,
                         const std::vector<std::string>& inputs) {
  constexpr size_t kMaxNamed = 4;
  const size_t named = std::min(inputs.size(), kMaxNamed);
  std::string names = absl::StrJoin(
      inputs.begin(), inputs.begin() + static_cast<int64_t>(named), "', '");
  absl::StrAppend(&names, "'");
  if (named < inputs.size()) {
    absl::StrAppend(&names, " and of ", inputs.size() - named, " more");
  }
  absl::Status status = absl::FailedPreconditionError(
      absl::StrCat(title, ": ", what, " depends on the numbers of the input",
                   inputs.size() == 1 ? " '" : "s '", names,
                   "; they must be known when the program is made"));
  status.SetPayload(kPayload, absl::Cord(absl::StrJoin(inputs, "\n")));
  return status;
}

std::vector<std::string> NeededInputs(const absl::Status& status) {
  const absl::optional<absl::Cord> payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return {};
  return absl::StrSplit(std::string(*payload), '\n');
}

}  // namespace gpupool::engine::onnx_import
