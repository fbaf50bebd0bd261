#include "client/cli/jobs/compare_view.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/job_view.h"
#include "client/text/units.h"
#include "client/yaml/precision_words.h"

namespace gpupool::client {
namespace {

// The facts of a run. Those that do not exist have no value.
struct RunFacts {
  std::optional<double> step_seconds;  // median
  std::optional<double> samples_per_second;
  std::optional<double> speed;  // of the base: 1
  std::optional<uint64_t> planned_bytes;
  std::optional<uint64_t> measured_bytes;  // peak
  std::optional<double> loss;              // of the last reported step
  std::optional<double> loss_difference;
  std::optional<double> relative_difference;  // to the base's absolute loss
  std::optional<uint64_t> skipped_steps;
};

std::optional<uint64_t> AboveZero(uint64_t bytes) {
  return bytes > 0 ? std::optional(bytes) : std::nullopt;
}

// Compares a run that trained to its end with the base.
void AddDifferences(const PrecisionRun& base, RunFacts& facts) {
  const double base_seconds = base.median_step_seconds();
  if (base_seconds > 0 && facts.step_seconds.has_value()) {
    facts.speed = base_seconds / *facts.step_seconds;
  }
  if (!facts.loss.has_value()) return;
  const double base_loss = base.job.progress().loss();
  facts.loss_difference = *facts.loss - base_loss;
  if (base_loss != 0) {
    facts.relative_difference = *facts.loss_difference / std::abs(base_loss);
  }
}

RunFacts FactsOf(const PrecisionRun& run, const PrecisionRun* base) {
  RunFacts facts;
  const v1::Job& job = run.job;
  const double seconds = run.median_step_seconds();
  if (seconds > 0) {
    facts.step_seconds = seconds;
    facts.samples_per_second = run.rows_per_step() / seconds;
  }
  facts.planned_bytes = AboveZero(job.memory().planned_peak_bytes());
  if (!facts.planned_bytes.has_value()) {
    facts.planned_bytes = AboveZero(job.plan().training().peak());
  }
  facts.measured_bytes = AboveZero(job.memory().measured_peak_bytes());
  if (job.progress().has_loss()) {
    facts.loss = job.progress().loss();
    if (run.precision == v1::FP16) {
      facts.skipped_steps = job.progress().skipped_steps();
    }
  }
  if (run.trained() && base != nullptr) AddDifferences(*base, facts);
  return facts;
}

std::string StateOfRun(const PrecisionRun& run) {
  return run.job.id() == 0 ? "not run" : StateText(run.job.state());
}

// Returns what `print` makes of the value, or "" without one.
template <typename Value, typename Print>
std::string Cell(const std::optional<Value>& value, Print print) {
  return value.has_value() ? print(*value) : "";
}

std::vector<std::string> CellsOf(const PrecisionRun& run,
                                 const PrecisionRun* base) {
  RunFacts facts = FactsOf(run, base);
  if (&run == base) {  // zeros say nothing
    facts.loss_difference.reset();
    facts.relative_difference.reset();
  }
  return {ArithmeticWord(run.precision),
          StateOfRun(run),
          Cell(facts.step_seconds,
               [](double s) { return absl::StrFormat("%.3f", s * 1e3); }),
          Cell(facts.samples_per_second, FormatCount),
          Cell(facts.speed,
               [](double speed) { return absl::StrFormat("%.2fx", speed); }),
          Cell(facts.planned_bytes, FormatBytes),
          Cell(facts.measured_bytes, FormatBytes),
          Cell(facts.loss, FormatLoss),
          Cell(facts.loss_difference,
               [](double d) { return absl::StrFormat("%+.3g", d); }),
          Cell(facts.relative_difference,
               [](double d) { return absl::StrFormat("%+.3g%%", d * 100); }),
          Cell(facts.skipped_steps, GroupDigits),
          run.reason()};
}

using Json = nlohmann::ordered_json;

template <typename Value>
Json OrNull(const std::optional<Value>& value) {
  return value.has_value() ? Json(*value) : Json(nullptr);
}

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

Json ToJson(const PrecisionRun& run, const PrecisionRun* base) {
  const RunFacts facts = FactsOf(run, base);
  const bool submitted = run.job.id() != 0;
  return {{"precision", ArithmeticWord(run.precision)},
          {"state", submitted ? v1::JobState_Name(run.job.state()) : "NOT_RUN"},
          {"reason", TextOrNull(run.reason())},
          {"job_id", submitted ? Json(run.job.id()) : Json(nullptr)},
          {"device", TextOrNull(DevicesText(run.job))},
          {"steps", run.job.progress().step()},
          {"median_step_ms", facts.step_seconds.has_value()
                                 ? Json(*facts.step_seconds * 1e3)
                                 : Json(nullptr)},
          {"samples_per_second", OrNull(facts.samples_per_second)},
          {"speed", OrNull(facts.speed)},
          {"planned_peak_bytes", OrNull(facts.planned_bytes)},
          {"measured_peak_bytes", OrNull(facts.measured_bytes)},
          {"loss", OrNull(facts.loss)},
          {"loss_difference", OrNull(facts.loss_difference)},
          {"relative_loss_difference", OrNull(facts.relative_difference)},
          {"skipped_steps", OrNull(facts.skipped_steps)}};
}

}  // namespace

const PrecisionRun* BaseOf(const std::vector<PrecisionRun>& runs) {
  for (const PrecisionRun& run : runs) {
    if (run.trained()) return &run;
  }
  return nullptr;
}

Table CompareTable(const std::vector<PrecisionRun>& runs) {
  Table table({{"PRECISION"},
               {"STATE"},
               {"STEP MS", Table::kRight},
               {"SAMPLES/S", Table::kRight},
               {"SPEED", Table::kRight},
               {"PLANNED", Table::kRight},
               {"PEAK", Table::kRight},
               {"LOSS", Table::kRight},
               {"DIFFERENCE", Table::kRight},
               {"RELATIVE", Table::kRight},
               {"SKIPPED", Table::kRight},
               {"REASON"}});
  const PrecisionRun* base = BaseOf(runs);
  for (const PrecisionRun& run : runs) table.AddRow(CellsOf(run, base));
  return table;
}

std::string CompareJson(const std::vector<PrecisionRun>& runs) {
  Json json = Json::array();
  const PrecisionRun* base = BaseOf(runs);
  for (const PrecisionRun& run : runs) json.push_back(ToJson(run, base));
  return absl::StrCat(json.dump(2, ' ', false, Json::error_handler_t::replace),
                      "\n");
}

}  // namespace gpupool::client
