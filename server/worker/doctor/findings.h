// The findings that the doctor can report: a table with id, severity, sentence
// and remedy for each, and the list of those that apply.
//
// Thread-safety: a Findings belongs to one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::server {

enum class Severity { kOk, kNote, kWarn, kFail };

// Returns "ok", "note", "warn" or "fail".
absl::string_view SeverityText(Severity severity);

struct FindingKind {
  const char* id;  // "area.name"
  Severity severity;
  const char* text;    // with $0, $1, ... for details
  const char* remedy;  // same form; empty: nothing to do
  // Whether it is a failure for somebody who counts on a GPU.
  bool fails_without_gpu = false;
};

// Returns the table in the order of the documentation.
absl::Span<const FindingKind> FindingKinds();

// Returns the table as Markdown rows, for the documentation.
std::string FindingsTable();

struct Finding {
  std::string id;
  Severity severity = Severity::kOk;
  std::string text;
  std::string remedy;
};

class Findings {
 public:
  explicit Findings(bool expect_gpu = false) : expect_gpu_(expect_gpu) {}

  // Adds the finding `id` of the table; `words` replace $0, $1, ...
  void Add(absl::string_view id, const std::vector<std::string>& words = {});

  const std::vector<Finding>& all() const { return all_; }
  // Returns the worst severity; kOk without findings.
  Severity worst() const;

 private:
  const bool expect_gpu_;
  std::vector<Finding> all_;
};

// Returns {"findings":[{"id":...,"severity":...,"text":...,"remedy":...}]} in
// one line.
std::string ToJson(const Findings& findings);

}  // namespace gpupool::server
