// Output of `gpupool doctor`: the worker's findings.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/output/console.h"

namespace gpupool::client {

struct DoctorFinding {
  std::string id;        // "driver.too_old"
  std::string severity;  // "ok", "note", "warn" or "fail"
  std::string text;
  std::string remedy;  // may be empty
};

// Reads the findings from the line of JSON in the output of `gpupool-worker
// doctor`. UNAVAILABLE if there is no such line.
absl::StatusOr<std::vector<DoctorFinding>> ReadFindings(
    absl::string_view output);

bool HasFailure(const std::vector<DoctorFinding>& findings);

// Prints a line for each finding, its remedy below it, and a last line with the
// counts. On a terminal, lines are wrapped at its width.
void PrintFindings(const std::vector<DoctorFinding>& findings,
                   const Stream& stream);

// Returns {"failures": 0, "warnings": 1, "findings": [...]}.
std::string FindingsJson(const std::vector<DoctorFinding>& findings);

}  // namespace gpupool::client
