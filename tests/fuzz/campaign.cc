#include "tests/fuzz/campaign.h"

#include <onnx/defs/printer.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "tests/fuzz/differential_run.h"
#include "tests/fuzz/guarded_child.h"
#include "tests/fuzz/sanitized.h"

namespace gpupool::engine::fuzz {
namespace {

constexpr uint64_t kFixedSeed = 20261125;
constexpr uint64_t kCasesPerChild = 50;
constexpr size_t kMostFindings = 20;
constexpr size_t kModelBytes = size_t{1} << 22;
constexpr uint64_t kMemoryBytes = uint64_t{2} << 30;
constexpr int kFindingCode = 10;

// The part of the memory that a child writes and the parent reads after a
// crash.
struct Note {
  uint64_t done;  // cases
  char stage[64];
  uint64_t model_bytes;
  char verdict[4096];
  uint64_t outcomes[6];
  uint64_t compared, skipped;
  char model[kModelBytes];
};

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr || *text == '\0' ? otherwise
                                          : std::strtoull(text, nullptr, 10);
}

void Copy(const std::string& text, char* to, size_t bytes) {
  const size_t length = std::min(text.size(), bytes - 1);
  std::memcpy(to, text.data(), length);
  to[length] = '\0';
}

void WriteModel(const onnx::ModelProto& model, Note& note) {
  const std::string bytes = model.SerializeAsString();
  note.model_bytes = 0;
  if (bytes.size() > kModelBytes) return;
  std::memcpy(note.model, bytes.data(), bytes.size());
  note.model_bytes = bytes.size();
}

void RunCase(const CampaignOptions& options, uint64_t seed, Note& note) {
  AllowProcessorSeconds(options.processor_seconds * (kSanitized ? 10 : 1));
  Copy("making the model", note.stage, sizeof(note.stage));
  const onnx::ModelProto model = options.make(
      seed,
      [&note](const onnx::ModelProto& tried) { WriteModel(tried, note); });
  WriteModel(model, note);
  const Verdict verdict = RunOnBoth(model, seed, [&note](const char* stage) {
    Copy(stage, note.stage, sizeof(note.stage));
  });
  ++note.outcomes[static_cast<size_t>(verdict.outcome)];
  note.compared += static_cast<uint64_t>(verdict.compared);
  note.skipped += static_cast<uint64_t>(verdict.skipped);
  if (!verdict.is_finding()) return;
  Copy(verdict.text, note.verdict, sizeof(note.verdict));
  std::fflush(nullptr);
  _exit(kFindingCode);
}

// Stores the model that a finding is about, if a folder is given.
std::string Keep(const CampaignOptions& options, uint64_t seed,
                 const std::string& bytes) {
  const char* folder = std::getenv("GPUPOOL_FUZZ_KEEP");
  if (folder == nullptr) return "";
  const std::string path =
      absl::StrCat(folder, "/", options.name, "-", seed, ".onnx");
  std::ofstream(path, std::ios::binary) << bytes;
  return absl::StrCat("model: ", path, "\n");
}

std::string DescribeCampaign(const CampaignOptions& options, uint64_t seed,
                             const std::string& ending, const Note& note) {
  const std::string bytes(note.model, note.model_bytes);
  onnx::ModelProto model;
  const bool parsed = model.ParseFromString(bytes);
  const bool verdict = note.verdict[0] != '\0';
  return absl::StrCat(
      "seed ", seed, " of ", options.name, ", stage \"", note.stage,
      "\": ", verdict ? note.verdict : ending.c_str(), "\n",
      "again: GPUPOOL_FUZZ_SEED=", seed, " GPUPOOL_FUZZ_GRAPHS=1\n",
      Keep(options, seed, bytes),
      parsed ? ModelText(model, 6000) : "the model is too large\n");
}

class Clock {
 public:
  explicit Clock(uint64_t seconds)
      : end_(std::chrono::steady_clock::now() + std::chrono::seconds(seconds)) {
  }
  bool is_over() const { return std::chrono::steady_clock::now() >= end_; }

 private:
  const std::chrono::steady_clock::time_point end_;
};

}  // namespace

std::string ModelText(const onnx::ModelProto& model, size_t most) {
  std::ostringstream text;
  for (const auto& imported : model.opset_import()) {
    text << "opset " << imported.domain() << ":" << imported.version() << " ";
  }
  text << "\n";
  try {
    onnx::operator<<(text, model.graph());
  } catch (const std::exception& error) {
    text << model.graph().ShortDebugString();
  }
  std::string result = text.str();
  if (result.size() > most) result.replace(most, std::string::npos, " ...");
  return result + "\n";
}

std::string CampaignReport::ToString() const {
  return absl::StrCat("seeds ", first_seed, " to ", first_seed + cases - 1,
                      ": ", alike, " alike, ", undefined, " undefined, ",
                      rejected, " rejected, ", refused, " refused, ",
                      findings.size(), " findings; ", compared,
                      " elements compared, ", skipped, " not");
}

CampaignReport RunCampaign(const CampaignOptions& options) {
  const uint64_t seconds = FromEnvironment("GPUPOOL_FUZZ_SECONDS", 0);
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  CampaignReport report;
  report.first_seed = FromEnvironment(
      "GPUPOOL_FUZZ_SEED",
      seconds == 0 ? kFixedSeed : static_cast<uint64_t>(now.count()) / 1000000);
  const uint64_t most = FromEnvironment(
      "GPUPOOL_FUZZ_GRAPHS", seconds == 0 ? options.cases : ~uint64_t{0});
  SharedBytes shared(sizeof(Note));
  Note& note = *shared.as<Note>();
  const Clock clock(seconds);
  const ChildLimits limits = {
      .memory_bytes = kSanitized ? 0 : kMemoryBytes,
      .wall_seconds = static_cast<int>(
          kCasesPerChild * static_cast<uint64_t>(options.processor_seconds))};
  while (note.done < most && (seconds == 0 || !clock.is_over()) &&
         report.findings.size() < kMostFindings) {
    const uint64_t end = std::min(most, note.done + kCasesPerChild);
    const std::string ending = RunInChild(limits, [&] {
      for (; note.done < end; ++note.done) {
        RunCase(options, report.first_seed + note.done, note);
      }
    });
    if (ending.empty()) continue;
    const std::string& finding = report.findings.emplace_back(
        DescribeCampaign(options, report.first_seed + note.done, ending, note));
    // A long campaign may be ended before it reports.
    std::printf("%s\n", finding.substr(0, finding.find('\n')).c_str());
    note.verdict[0] = '\0';
    ++note.done;
  }
  report.cases = note.done;
  const auto count = [&note](Outcome outcome) {
    return note.outcomes[static_cast<size_t>(outcome)];
  };
  report.refused = count(Outcome::kRefused);
  report.rejected = count(Outcome::kRejected);
  report.undefined = count(Outcome::kUndefined);
  report.alike = count(Outcome::kAlike);
  report.compared = note.compared;
  report.skipped = note.skipped;
  return report;
}

}  // namespace gpupool::engine::fuzz
