#include "server/worker/doctor/examine.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/backends/cuda/nvml.h"
#include "engine/runtime/device_module.h"
#include "server/worker/doctor/apart.h"
#include "server/worker/doctor/survey_json.h"

namespace gpupool::server {
namespace {

std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Fills `answer` with what `question` says in a process of its own.
template <typename Answer>
absl::Status Ask(const std::function<Answer()>& question, absl::Duration limit,
                 Answer& answer) {
  const auto text =
      AskApart([&] { return Dump(nlohmann::json(question())); }, limit);
  if (!text.ok()) return text.status();
  const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
  if (json.is_discarded()) return absl::AbortedError("it answered nonsense");
  json.get_to(answer);
  return absl::OkStatus();
}

ModuleSurvey SurveyModule(const std::vector<std::string>& folders) {
  ModuleSurvey survey;
  survey.folders = absl::StrJoin(folders, " or ");
  const auto path = engine::FindCudaModule(folders);
  if (!path.ok()) return survey;
  survey.path = *path;
  const auto module = engine::LoadDeviceModule(*path);
  if (!module.ok()) {
    survey.load_error = std::string(module.status().message());
    return survey;
  }
  survey.architectures = (*module)->Architectures();
  const auto count = (*module)->CountDevices();
  if (!count.ok()) survey.count_error = std::string(count.status().message());
  return survey;
}

// Each word of the topology once.
std::vector<std::string> SurveyLinks(const std::string& folders,
                                     const std::vector<std::string>& uuids) {
  std::vector<std::string> words;
  const auto nvml = engine::cuda::Nvml::OpenFrom(folders);
  if (!nvml.ok()) return words;
  for (const auto& row : (*nvml)->LinksBetween(uuids)) {
    words.insert(words.end(), row.begin(), row.end());
  }
  std::sort(words.begin(), words.end());
  words.erase(std::unique(words.begin(), words.end()), words.end());
  std::erase(words, "");
  return words;
}

void AskAboutGpus(const ExamineOptions& options, DoctorFacts& facts) {
  facts.gpus_asked = true;
  facts.driver_asked = Ask<engine::cuda::DriverSurvey>(
      [] { return engine::cuda::SurveyDriver(); }, options.limit, facts.driver);
  if (absl::IsDeadlineExceeded(facts.driver_asked)) {
    // Everything else would wait for the same driver.
    facts.nvml_asked = facts.driver_asked;
    facts.libraries_asked = facts.driver_asked;
    facts.module_asked = facts.driver_asked;
    return;
  }
  const std::string& folders = options.cuda_lib_dir;
  facts.nvml_asked = Ask<engine::cuda::NvmlSurvey>(
      [&] { return engine::cuda::SurveyNvml(folders); }, options.limit,
      facts.nvml);
  facts.module_asked =
      Ask<ModuleSurvey>([&] { return SurveyModule(options.module_dirs); },
                        options.limit, facts.module);
  // Nobody misses libraries where no GPU works, and they take long to load.
  if (facts.driver.gpus.empty()) return;
  facts.libraries_asked = Ask<std::vector<engine::cuda::SurveyedLibrary>>(
      [&] { return engine::cuda::SurveyLibraries(folders); }, options.limit,
      facts.libraries);
  if (facts.driver.gpus.size() < 2) return;
  std::vector<std::string> uuids;
  for (const auto& gpu : facts.driver.gpus) uuids.push_back(gpu.uuid);
  Ask<std::vector<std::string>>([&] { return SurveyLinks(folders, uuids); },
                                options.limit, facts.links)
      .IgnoreError();
}

void NameProcesses(const std::string& root, DoctorFacts& facts) {
  for (const auto& gpu : facts.nvml.gpus) {
    for (const auto& process : gpu.processes) {
      const auto path = std::filesystem::path(root) / "proc" /
                        absl::StrCat(process.pid) / "comm";
      std::ifstream file(path);
      std::string name;
      if (std::getline(file, name)) facts.process_names[process.pid] = name;
    }
  }
}

}  // namespace

DoctorFacts Examine(const ExamineOptions& options) {
  DoctorFacts facts;
  facts.host = ReadHostFacts(options.root);
  if (options.gpus) AskAboutGpus(options, facts);
  NameProcesses(options.root, facts);
  facts.ring_bytes = options.ring_bytes;
  if (!options.state_dir.empty()) {
    facts.state = ReadStateFacts(options.state_dir);
  }
  facts.ports = options.ports;
  facts.held_ports = HeldPorts(options.listen, options.ports);
  return facts;
}

}  // namespace gpupool::server
