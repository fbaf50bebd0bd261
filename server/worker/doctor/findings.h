// What the doctor may find: one table with an id, how bad it is, a sentence and
// the one remedy for each, and the list of what was found.
//
// Thread-safety: a Findings belongs to one thread.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::server {

enum class Severity { kOk, kNote, kWarn, kFail };

// "ok", "note", "warn", "fail".
absl::string_view SeverityText(Severity severity);

struct FindingKind {
  const char* id;  // "area.name"
  Severity severity;
  const char* text;    // with $0, $1, ... for what was found
  const char* remedy;  // the same; empty where there is nothing to do
  // Whether it fails where somebody counts on a GPU.
  bool fails_without_gpu = false;
};

// In the order of the documentation.
absl::Span<const FindingKind> FindingKinds();

// The table as Markdown rows, for the documentation.
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
  // The worst of all; kOk without any.
  Severity worst() const;

 private:
  const bool expect_gpu_;
  std::vector<Finding> all_;
};

// {"findings":[{"id":...,"severity":...,"text":...,"remedy":...}]} in one line.
std::string ToJson(const Findings& findings);

}  // namespace gpupool::server
