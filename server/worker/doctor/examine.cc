#include "server/worker/doctor/examine.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "engine/backends/cuda/nvml.h"
#include "engine/runtime/device_module.h"
#include "server/worker/doctor/apart.h"
#include "server/worker/doctor/survey_json.h"

namespace gpupool::server {
namespace {

// Returns the JSON. Replaces bytes that are not UTF-8, which the library
// answers with an exception by default.
std::string Dump(const nlohmann::json& json) {
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// Asks each question in a process of its own, as long as the total time lasts.
class Asker {
 public:
  explicit Asker(const ExamineOptions& options)
      : limit_(options.limit), deadline_(absl::Now() + options.total) {}

  // Fills in `answer` with the result of `question`.
  template <typename Answer>
  absl::Status Ask(const std::function<Answer()>& question,
                   Answer& answer) const {
    const absl::Duration left =
        std::clamp(deadline_ - absl::Now(), absl::Milliseconds(1), limit_);
    const auto text =
        AskApart([&] { return Dump(nlohmann::json(question())); }, left);
    if (!text.ok()) return text.status();
    const nlohmann::json json = nlohmann::json::parse(*text, nullptr, false);
    if (json.is_discarded()) return absl::AbortedError("it answered nonsense");
    json.get_to(answer);
    return absl::OkStatus();
  }

 private:
  const absl::Duration limit_;
  const absl::Time deadline_;
};

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

// Returns the words of the topology, each once.
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

// Opens each library in a process of its own, since a damaged one crashes it.
void AskAboutLibraries(const Asker& asker, const std::string& folders,
                       std::vector<engine::cuda::SurveyedLibrary>& libraries) {
  using engine::cuda::SurveyedLibrary;
  for (const auto& known : engine::cuda::KnownLibraries()) {
    SurveyedLibrary library;
    const absl::Status asked = asker.Ask<SurveyedLibrary>(
        [&] { return engine::cuda::SurveyLibrary(known, folders, libraries); },
        library);
    if (!asked.ok()) {
      library = engine::cuda::FatalLibrary(known, folders,
                                           std::string(asked.message()));
    }
    libraries.push_back(std::move(library));
  }
}

void AskAboutGpus(const ExamineOptions& options, DoctorFacts& facts) {
  const Asker asker(options);
  facts.gpus_asked = true;
  facts.driver_asked = asker.Ask<engine::cuda::DriverSurvey>(
      [] { return engine::cuda::SurveyDriver(); }, facts.driver);
  if (absl::IsDeadlineExceeded(facts.driver_asked)) {
    // Ask nothing more: every other question would wait for the same driver.
    facts.nvml_asked = facts.driver_asked;
    facts.module_asked = facts.driver_asked;
    return;
  }
  const std::string& folders = options.cuda_lib_dir;
  facts.nvml_asked = asker.Ask<engine::cuda::NvmlSurvey>(
      [&] { return engine::cuda::SurveyNvml(folders); }, facts.nvml);
  facts.module_asked = asker.Ask<ModuleSurvey>(
      [&] { return SurveyModule(options.module_dirs); }, facts.module);
  // Libraries take long to load, and without a working GPU nobody needs them.
  if (facts.driver.gpus.empty()) return;
  AskAboutLibraries(asker, folders, facts.libraries);
  if (facts.driver.gpus.size() < 2) return;
  std::vector<std::string> uuids;
  for (const auto& gpu : facts.driver.gpus) uuids.push_back(gpu.uuid);
  asker
      .Ask<std::vector<std::string>>(
          [&] { return SurveyLinks(folders, uuids); }, facts.links)
      .IgnoreError();
}

// Reads the names of processes on the GPUs. A process of another container may
// have none here.
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
  facts.folder_errors = FolderErrors(options.cuda_lib_dir);
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
