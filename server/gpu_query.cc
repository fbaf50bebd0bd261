#include "server/gpu_query.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/job_limits.h"
#include "engine/base/status_macros.h"
#include "server/worker_answer.h"

namespace gpupool::server {
namespace {

absl::Status Nonsense(absl::string_view output) {
  return absl::UnavailableError(
      absl::StrCat("the worker's list of GPUs cannot be read: ",
                   absl::StripAsciiWhitespace(output.substr(0, 200))));
}

// Returns the refusal; a value that is no text refuses nothing.
std::string ReadRefusal(const nlohmann::json& gpu) {
  const auto refusal = gpu.find("refusal");
  if (refusal == gpu.end() || !refusal->is_string()) return "";
  return refusal->get<std::string>();
}

// Returns the links. Unknown words count as unknown links; a list of another
// length counts as none.
std::vector<scheduler::Link> ReadLinks(const nlohmann::json& gpu,
                                       size_t count) {
  std::vector<scheduler::Link> links;
  const auto words = gpu.find("links");
  if (words == gpu.end() || !words->is_array() || words->size() != count) {
    return links;
  }
  for (const nlohmann::json& word : *words) {
    const auto link = word.is_string()
                          ? scheduler::ParseLink(word.get<std::string>())
                          : std::nullopt;
    links.push_back(link.value_or(scheduler::Link::kUnknown));
  }
  return links;
}

}  // namespace

absl::StatusOr<std::vector<UsableGpu>> ParseGpus(absl::string_view output) {
  // Libraries may have printed lines before the answer.
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (line.substr(0, 1) != "{") continue;
    const auto json =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object() || !json.contains("gpus")) break;
    const nlohmann::json& gpus = json["gpus"];
    if (!gpus.is_array() || gpus.empty() || gpus.size() > engine::kMaxGpus) {
      break;
    }
    std::vector<UsableGpu> usable;
    for (const nlohmann::json& gpu : gpus) {
      if (!gpu.is_object() || !gpu.contains("usable_bytes") ||
          !gpu["usable_bytes"].is_number_unsigned()) {
        return Nonsense(output);
      }
      usable.push_back(
          {gpu["usable_bytes"].get<uint64_t>(), ReadLinks(gpu, gpus.size()),
           ReadRefusal(gpu),
           gpu.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace)});
    }
    return usable;
  }
  return Nonsense(output);
}

absl::StatusOr<std::vector<UsableGpu>> AskForGpus(
    const std::string& worker_binary, const std::string& cuda_lib_dir,
    absl::Duration timeout, const std::function<bool()>& give_up) {
  std::vector<std::string> arguments = {worker_binary, "devices"};
  if (!cuda_lib_dir.empty()) {
    arguments.insert(arguments.end(), {"--cuda-lib-dir", cuda_lib_dir});
  }
  ASSIGN_OR_RETURN(const WorkerAnswer answer,
                   AskWorker(arguments, timeout, give_up));
  if (answer.end == "exit code 0") return ParseGpus(answer.text);
  const absl::string_view reason = absl::StripAsciiWhitespace(answer.text);
  return absl::FailedPreconditionError(
      reason.empty() ? absl::StrCat(worker_binary, " devices: ", answer.end)
                     : std::string(reason.substr(0, 2000)));
}

}  // namespace gpupool::server
