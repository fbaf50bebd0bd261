#include "client/cli/simulation/sim_result.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

using Json = nlohmann::ordered_json;

Json ToJson(const SimResult& result) {
  const scheduler::ReplaySummary& summary = result.summary;
  return {{"policy", result.policy},
          {"jobs", summary.jobs},
          {"mean_jct_s", summary.mean_jct_s},
          {"p50_jct_s", summary.p50_jct_s},
          {"p99_jct_s", summary.p99_jct_s},
          {"mean_wait_s", summary.mean_wait_s},
          {"makespan_s", summary.makespan_s},
          {"utilization", summary.utilization},
          {"arrival_utilization", summary.arrival_utilization},
          {"fragmentation", summary.fragmentation},
          {"preemptions", summary.preemptions},
          {"moves", summary.moves},
          {"events", summary.events},
          {"seconds", result.seconds},
          {"decisions_per_second", result.decisions_per_second()}};
}

std::string Percent(double share) {
  return absl::StrFormat("%.1f%%", share * 100);
}

std::string Time(double seconds) { return FormatSpan(absl::Seconds(seconds)); }

}  // namespace

double SimResult::decisions_per_second() const {
  return seconds > 0 ? static_cast<double>(summary.events) / seconds : 0;
}

Table SimTable(const std::vector<SimResult>& results) {
  Table table({{"POLICY"},
               {"JOBS", Table::kRight},
               {"MEAN JCT", Table::kRight},
               {"P50", Table::kRight},
               {"P99", Table::kRight},
               {"MEAN WAIT", Table::kRight},
               {"MAKESPAN", Table::kRight},
               {"BUSY", Table::kRight},
               {"BUSY TO END", Table::kRight},
               {"FRAGMENTED", Table::kRight},
               {"PREEMPTIONS", Table::kRight},
               {"DECISIONS/S", Table::kRight}});
  for (const SimResult& result : results) {
    const scheduler::ReplaySummary& summary = result.summary;
    table.AddRow(
        {result.policy, GroupDigits(summary.jobs), Time(summary.mean_jct_s),
         Time(summary.p50_jct_s), Time(summary.p99_jct_s),
         Time(summary.mean_wait_s), Time(summary.makespan_s),
         Percent(summary.arrival_utilization), Percent(summary.utilization),
         Percent(summary.fragmentation), GroupDigits(summary.preemptions),
         FormatCount(result.decisions_per_second())});
  }
  return table;
}

std::string SimJson(const std::vector<SimResult>& results) {
  Json json = Json::array();
  for (const SimResult& result : results) json.push_back(ToJson(result));
  return absl::StrCat((results.size() == 1 ? json[0] : json).dump(2), "\n");
}

std::string SimYaml(const std::vector<SimResult>& results) {
  std::string text;
  const bool is_list = results.size() != 1;
  for (const SimResult& result : results) {
    absl::string_view start = is_list ? "- " : "";
    const Json json = ToJson(result);
    for (const auto& [key, value] : json.items()) {
      absl::StrAppend(
          &text, start, key, ": ",
          value.is_string() ? value.get<std::string>() : value.dump(), "\n");
      start = is_list ? "  " : "";
    }
  }
  return text;
}

}  // namespace gpupool::client
