#include "scheduler/simulator/trace.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace gpupool::scheduler {
namespace {

constexpr size_t kMostSeconds = 10'000'000'000;  // three centuries

struct Columns {
  std::optional<size_t> job_id, submit, gpus, duration, tenant;
};

absl::StatusOr<Columns> ReadHeader(absl::string_view line) {
  Columns columns;
  const std::vector<absl::string_view> names = absl::StrSplit(line, ',');
  for (size_t i = 0; i < names.size(); ++i) {
    const absl::string_view name = absl::StripAsciiWhitespace(names[i]);
    if (name == "job_id") columns.job_id = i;
    if (name == "submit_s") columns.submit = i;
    if (name == "gpus") columns.gpus = i;
    if (name == "duration_s") columns.duration = i;
    // The traces of Philly and Helios call a tenant a virtual cluster.
    if (name == "vc" || name == "tenant") columns.tenant = i;
  }
  for (const auto& [column, name] :
       {std::make_pair(columns.submit, "submit_s"),
        std::make_pair(columns.gpus, "gpus"),
        std::make_pair(columns.duration, "duration_s")}) {
    if (!column) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the trace's first line names no column '", name,
          "'; it needs submit_s, gpus and duration_s, and may have job_id and "
          "tenant"));
    }
  }
  return columns;
}

absl::Status BadValue(size_t line, absl::string_view column,
                      absl::string_view value, absl::string_view allowed) {
  return absl::InvalidArgumentError(
      absl::StrCat("line ", line, " of the trace: ", column, " is '",
                   value.substr(0, 40), "'; it must be ", allowed));
}

class RowReader {
 public:
  RowReader(const Columns& columns, size_t line, absl::string_view text)
      : columns_(columns), line_(line), fields_(absl::StrSplit(text, ',')) {}

  absl::StatusOr<TraceJob> Read() const {
    TraceJob job;
    double submit = 0;
    if (!ReadSeconds(columns_.submit, &submit) || submit < 0) {
      return BadValue(line_, "submit_s", Field(columns_.submit),
                      "a number of seconds, 0 or more");
    }
    double run = 0;
    if (!ReadSeconds(columns_.duration, &run) || run <= 0) {
      return BadValue(line_, "duration_s", Field(columns_.duration),
                      "a number of seconds above 0");
    }
    if (!absl::SimpleAtoi(Field(columns_.gpus), &job.devices) ||
        job.devices < 1 || job.devices > kMostTraceDevices) {
      return BadValue(
          line_, "gpus", Field(columns_.gpus),
          absl::StrCat("a whole number from 1 to ", kMostTraceDevices));
    }
    job.submit = absl::Seconds(submit);
    job.run = absl::Seconds(run);
    job.name = std::string(Field(columns_.job_id));
    // The number of the line is unique.
    if (job.name.empty()) job.name = absl::StrCat(line_);
    job.tenant = std::string(Field(columns_.tenant));
    return job;
  }

 private:
  absl::string_view Field(const std::optional<size_t>& column) const {
    if (!column || *column >= fields_.size()) return "";
    return absl::StripAsciiWhitespace(fields_[*column]);
  }
  bool ReadSeconds(const std::optional<size_t>& column, double* value) const {
    // SimpleAtod takes "inf" and "nan" as well.
    return absl::SimpleAtod(Field(column), value) && std::isfinite(*value) &&
           *value <= static_cast<double>(kMostSeconds);
  }

  const Columns& columns_;
  size_t line_;
  std::vector<absl::string_view> fields_;
};

}  // namespace

absl::StatusOr<std::vector<TraceJob>> ParseTrace(absl::string_view csv) {
  std::vector<TraceJob> jobs;
  std::optional<Columns> columns;
  absl::flat_hash_set<std::string> names;
  size_t line = 0;
  for (absl::string_view text : absl::StrSplit(csv, '\n')) {
    ++line;
    text = absl::StripAsciiWhitespace(text);
    if (text.empty()) continue;
    if (!columns) {
      absl::StatusOr<Columns> header = ReadHeader(text);
      if (!header.ok()) return header.status();
      columns = *header;
      continue;
    }
    absl::StatusOr<TraceJob> job = RowReader(*columns, line, text).Read();
    if (!job.ok()) return job.status();
    if (!names.insert(job->name).second) {
      return BadValue(line, "job_id", job->name, "another than those above");
    }
    jobs.push_back(*std::move(job));
    if (jobs.size() > kMostTraceJobs) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the trace has more than ", kMostTraceJobs, " jobs; shorten it"));
    }
  }
  if (jobs.empty()) {
    return absl::InvalidArgumentError("the trace has no jobs");
  }
  // Jobs of one second stay in the order of the file.
  std::stable_sort(
      jobs.begin(), jobs.end(),
      [](const TraceJob& a, const TraceJob& b) { return a.submit < b.submit; });
  return jobs;
}

}  // namespace gpupool::scheduler
