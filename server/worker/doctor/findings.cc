#include "server/worker/doctor/findings.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/base/check.h"

namespace gpupool::server {
namespace {

std::string Fill(absl::string_view text,
                 const std::vector<std::string>& words) {
  std::vector<std::pair<std::string, std::string>> replacements;
  for (size_t i = 0; i < words.size(); ++i) {
    replacements.emplace_back(absl::StrCat("$", i), words[i]);
  }
  return absl::StrReplaceAll(text, replacements);
}

// Escapes bars, which would end a cell of a Markdown table.
std::string Cell(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}});
}

}  // namespace

absl::string_view SeverityText(Severity severity) {
  switch (severity) {
    case Severity::kOk:
      return "ok";
    case Severity::kNote:
      return "note";
    case Severity::kWarn:
      return "warn";
    case Severity::kFail:
      break;
  }
  return "fail";
}

std::string FindingsTable() {
  std::string table;
  for (const FindingKind& kind : FindingKinds()) {
    absl::StrAppend(&table, "| `", kind.id, "` | ", SeverityText(kind.severity),
                    kind.fails_without_gpu ? "\\*" : "", " | ", Cell(kind.text),
                    " | ", Cell(kind.remedy), " |\n");
  }
  return table;
}

void Findings::Add(absl::string_view id,
                   const std::vector<std::string>& words) {
  const auto kinds = FindingKinds();
  const auto kind =
      std::find_if(kinds.begin(), kinds.end(),
                   [&](const FindingKind& one) { return id == one.id; });
  GPUPOOL_CHECK(kind != kinds.end());
  all_.push_back({std::string(id),
                  expect_gpu_ && kind->fails_without_gpu ? Severity::kFail
                                                         : kind->severity,
                  Fill(kind->text, words), Fill(kind->remedy, words)});
}

Severity Findings::worst() const {
  Severity worst = Severity::kOk;
  for (const Finding& finding : all_) {
    worst = std::max(worst, finding.severity);
  }
  return worst;
}

std::string ToJson(const Findings& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings.all()) {
    list.push_back({{"id", finding.id},
                    {"severity", std::string(SeverityText(finding.severity))},
                    {"text", finding.text},
                    {"remedy", finding.remedy}});
  }
  const nlohmann::ordered_json all = {{"findings", std::move(list)}};
  return all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gpupool::server
