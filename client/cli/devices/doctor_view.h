// What `gpupool doctor` shows of the worker's findings.
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

// Of the line of JSON in what `gpupool-worker doctor` printed. UNAVAILABLE
// when there is none.
absl::StatusOr<std::vector<DoctorFinding>> ReadFindings(
    absl::string_view output);

bool HasFailure(const std::vector<DoctorFinding>& findings);

// A line for each finding, its remedy beneath, and one that counts them. On a
// terminal lines are broken at its width.
void PrintFindings(const std::vector<DoctorFinding>& findings,
                   const Stream& stream);

// {"failures": 0, "warnings": 1, "findings": [...]}
std::string FindingsJson(const std::vector<DoctorFinding>& findings);

}  // namespace gpupool::client
