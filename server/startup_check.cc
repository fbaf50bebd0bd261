#include "server/startup_check.h"

#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "server/worker_answer.h"

namespace gpupool::server {
namespace {

constexpr size_t kMaxFindings = 1000;

std::vector<std::string> Arguments(const StartupCheckOptions& options) {
  std::vector<std::string> arguments = {
      options.worker_binary, "doctor",       "--state-dir",
      options.state_dir,     "--ring-bytes", absl::StrCat(options.ring_bytes)};
  if (!options.cuda_lib_dir.empty()) {
    arguments.insert(arguments.end(), {"--cuda-lib-dir", options.cuda_lib_dir});
  }
  if (!options.may_use_gpus) arguments.emplace_back("--no-gpus");
  if (options.needs_gpus) arguments.emplace_back("--expect-gpu");
  return arguments;
}

std::string Text(const nlohmann::json& finding, const char* key) {
  const auto value = finding.find(key);
  return value != finding.end() && value->is_string()
             ? value->get<std::string>()
             : "";
}

// Quotes would end the field in the line of the log.
std::string Unquoted(const std::string& text) {
  return absl::StrReplaceAll(text, {{"\"", "'"}});
}

void Log(const MachineFinding& finding) {
  const auto level =
      finding.severity == "fail" ? spdlog::level::err : spdlog::level::warn;
  spdlog::log(level, "doctor id={} text=\"{}\" remedy=\"{}\"", finding.id,
              Unquoted(finding.text), Unquoted(finding.remedy));
}

}  // namespace

std::vector<MachineFinding> ParseFindings(absl::string_view output) {
  std::vector<MachineFinding> findings;
  // Libraries may have printed lines before the answer.
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (line.substr(0, 1) != "{") continue;
    const nlohmann::json json =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object() || !json.contains("findings")) continue;
    const nlohmann::json& list = json["findings"];
    if (!list.is_array() || list.size() > kMaxFindings) break;
    for (const nlohmann::json& one : list) {
      if (!one.is_object()) continue;
      MachineFinding finding = {Text(one, "id"), Text(one, "severity"),
                                Text(one, "text"), Text(one, "remedy")};
      if (finding.severity == "warn" || finding.severity == "fail") {
        findings.push_back(std::move(finding));
      }
    }
    break;
  }
  return findings;
}

StartupCheck::StartupCheck(StartupCheckOptions options)
    : thread_([this, options = std::move(options)] { Run(options); }) {}

StartupCheck::~StartupCheck() {
  stop_ = true;
  thread_.join();
}

void StartupCheck::Run(const StartupCheckOptions& options) {
  const auto answer = AskWorker(Arguments(options), options.timeout,
                                [this] { return stop_.load(); });
  if (absl::IsCancelled(answer.status())) return;
  if (!answer.ok()) {
    spdlog::warn("the machine was not examined error=\"{}\"",
                 std::string(answer.status().message()));
    return;
  }
  if (answer->end != "exit code 0" && answer->end != "exit code 1") {
    spdlog::warn("the machine was not examined error=\"{} doctor: {}\"",
                 options.worker_binary, answer->end);
    return;
  }
  for (const MachineFinding& finding : ParseFindings(answer->text)) {
    Log(finding);
  }
}

}  // namespace gpupool::server
