#include "client/cli/devices/doctor_view.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/output/table.h"
#include "client/text/counted.h"

namespace gpupool::client {
namespace {

constexpr size_t kIndent = 8;  // "[warn]  "
constexpr size_t kNarrowest = 40;

size_t CountOf(const std::vector<DoctorFinding>& findings,
               absl::string_view severity) {
  return static_cast<size_t>(
      std::count_if(findings.begin(), findings.end(),
                    [&](const auto& one) { return one.severity == severity; }));
}

Style StyleOf(absl::string_view severity) {
  if (severity == "ok") return Style::kGreen;
  if (severity == "warn") return Style::kYellow;
  return severity == "fail" ? Style::kRed : Style::kPlain;
}

// Returns lines of at most `width` columns. A longer word has a line of its
// own.
std::vector<std::string> Wrap(const std::string& text, size_t width) {
  std::vector<std::string> lines = {""};
  for (absl::string_view word : absl::StrSplit(text, ' ')) {
    std::string& last = lines.back();
    if (last.empty()) {
      last = std::string(word);
    } else if (DisplayWidth(last) + 1 + DisplayWidth(std::string(word)) <=
               width) {
      absl::StrAppend(&last, " ", word);
    } else {
      lines.emplace_back(word);
    }
  }
  return lines;
}

void PrintText(const std::string& text, const Stream& stream) {
  if (!stream.is_terminal) {
    *stream.stream << text << "\n";
    return;
  }
  const size_t room = static_cast<size_t>(std::max(0, stream.width));
  const size_t width = std::max(kNarrowest, room - std::min(room, kIndent));
  bool first = true;
  for (const std::string& line : Wrap(text, width)) {
    *stream.stream << (first ? "" : std::string(kIndent, ' ')) << line << "\n";
    first = false;
  }
}

std::string Text(const nlohmann::json& finding, const char* key) {
  const auto value = finding.find(key);
  return value != finding.end() && value->is_string()
             ? value->get<std::string>()
             : "";
}

}  // namespace

absl::StatusOr<std::vector<DoctorFinding>> ReadFindings(
    absl::string_view output) {
  // Libraries may have printed other lines before it.
  for (absl::string_view line : absl::StrSplit(output, '\n')) {
    if (line.substr(0, 1) != "{") continue;
    const nlohmann::json json =
        nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
    if (!json.is_object() || !json.contains("findings") ||
        !json["findings"].is_array()) {
      continue;
    }
    // Every machine has findings, at least those of severity "ok".
    if (json["findings"].empty()) break;
    std::vector<DoctorFinding> findings;
    for (const nlohmann::json& one : json["findings"]) {
      if (!one.is_object()) continue;
      findings.push_back({Text(one, "id"), Text(one, "severity"),
                          Text(one, "text"), Text(one, "remedy")});
    }
    return findings;
  }
  return absl::UnavailableError(
      "the worker's findings cannot be read; install gpupool and "
      "gpupool-worker of one build");
}

bool HasFailure(const std::vector<DoctorFinding>& findings) {
  return CountOf(findings, "fail") > 0;
}

void PrintFindings(const std::vector<DoctorFinding>& findings,
                   const Stream& stream) {
  for (const DoctorFinding& finding : findings) {
    const std::string label = absl::StrCat("[", finding.severity, "]");
    *stream.stream << Paint(stream, StyleOf(finding.severity), label)
                   << std::string(kIndent - std::min(kIndent, label.size()),
                                  ' ');
    PrintText(finding.text, stream);
    if (finding.remedy.empty()) continue;
    *stream.stream << std::string(kIndent, ' ');
    PrintText(absl::StrCat("-> ", finding.remedy), stream);
  }
  const size_t failures = CountOf(findings, "fail");
  const size_t warnings = CountOf(findings, "warn");
  *stream.stream << (failures + warnings == 0
                         ? "nothing is wrong"
                         : absl::StrCat(Counted(failures, "failure"), ", ",
                                        Counted(warnings, "warning")))
                 << "\n";
}

std::string FindingsJson(const std::vector<DoctorFinding>& findings) {
  nlohmann::ordered_json json;
  json["failures"] = CountOf(findings, "fail");
  json["warnings"] = CountOf(findings, "warn");
  json["findings"] = nlohmann::ordered_json::array();
  for (const DoctorFinding& finding : findings) {
    json["findings"].push_back({{"id", finding.id},
                                {"severity", finding.severity},
                                {"text", finding.text},
                                {"remedy", finding.remedy}});
  }
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gpupool::client
