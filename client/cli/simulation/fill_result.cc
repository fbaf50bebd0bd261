#include "client/cli/simulation/fill_result.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

using Json = nlohmann::ordered_json;
using scheduler::FillResult;

template <typename Figure>
double Mean(const Fills& fills, Figure figure) {
  double sum = 0;
  for (const auto& of_seed : fills.seeds) {
    sum += static_cast<double>(of_seed.result.*figure);
  }
  return sum / static_cast<double>(fills.seeds.size());
}

Json FillsToJson(const Fills& fills) {
  Json json = {
      {"placement", fills.placement},
      {"jobs", Mean(fills, &FillResult::jobs)},
      {"dropped", Mean(fills, &FillResult::dropped)},
      {"asked", Mean(fills, &FillResult::asked)},
      {"allocated", Mean(fills, &FillResult::allocated)},
      {"allocated_at_full", Mean(fills, &FillResult::allocated_at_full)},
      {"fragmented", Mean(fills, &FillResult::fragmented)},
      {"seconds", fills.seconds},
      {"seeds", Json::array()}};
  for (const auto& [seed, result] : fills.seeds) {
    json["seeds"].push_back({{"seed", seed},
                             {"jobs", result.jobs},
                             {"dropped", result.dropped},
                             {"allocated", result.allocated},
                             {"allocated_at_full", result.allocated_at_full},
                             {"fragmented", result.fragmented}});
  }
  return json;
}

std::string FinePercent(double share) {
  return absl::StrFormat("%.2f%%", share * 100);
}

std::string Count(double mean) { return absl::StrFormat("%.0f", mean); }

}  // namespace

Table FillTable(const std::vector<Fills>& fills) {
  Table table({{"PLACEMENT"},
               {"JOBS", Table::kRight},
               {"DROPPED", Table::kRight},
               {"ASKED", Table::kRight},
               {"ALLOCATED", Table::kRight},
               {"AT 100% ASKED", Table::kRight},
               {"IDLE BUT FRAGMENTED", Table::kRight}});
  for (const Fills& of_rule : fills) {
    table.AddRow({of_rule.placement, Count(Mean(of_rule, &FillResult::jobs)),
                  Count(Mean(of_rule, &FillResult::dropped)),
                  FinePercent(Mean(of_rule, &FillResult::asked)),
                  FinePercent(Mean(of_rule, &FillResult::allocated)),
                  FinePercent(Mean(of_rule, &FillResult::allocated_at_full)),
                  FinePercent(Mean(of_rule, &FillResult::fragmented))});
  }
  return table;
}

std::string FillJson(const std::vector<Fills>& fills) {
  Json json = Json::array();
  for (const Fills& of_rule : fills) json.push_back(FillsToJson(of_rule));
  return absl::StrCat((fills.size() == 1 ? json[0] : json).dump(2), "\n");
}

}  // namespace gpupool::client
