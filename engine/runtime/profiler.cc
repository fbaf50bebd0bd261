#include "engine/runtime/profiler.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpupool::engine {
namespace {

// Returns a JSON string. Layer names of specs are checked, but names from other
// sources may hold any bytes.
std::string Quote(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      absl::StrAppendFormat(&quoted, "\\u%04x", c);
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace

void Profile::Add(int node, int64_t begin_nanos, int64_t end_nanos) {
  if (totals_.size() <= static_cast<size_t>(node)) {
    totals_.resize(static_cast<size_t>(node) + 1);
  }
  NodeTotal& total = totals_[static_cast<size_t>(node)];
  total.node = node;
  ++total.runs;
  total.nanos += end_nanos - begin_nanos;
  if (runs_ < traced_runs_) {
    times_.push_back({node, begin_nanos, end_nanos, runs_});
  }
}

std::vector<NodeTotal> Profile::Totals() const {
  std::vector<NodeTotal> ran;
  for (const NodeTotal& total : totals_) {
    if (total.runs > 0) ran.push_back(total);
  }
  std::stable_sort(
      ran.begin(), ran.end(),
      [](const NodeTotal& a, const NodeTotal& b) { return a.nanos > b.nanos; });
  return ran;
}

std::string Profile::Table(const Graph& graph) const {
  const std::vector<NodeTotal> totals = Totals();
  int64_t all = 0;
  for (const NodeTotal& total : totals) all += total.nanos;
  std::string text = absl::StrFormat("%6s %12s %9s  %-24s %s\n", "share",
                                     "us per run", "GFLOP/s", "op", "layer");
  for (const NodeTotal& total : totals) {
    const Node& node = graph.nodes()[static_cast<size_t>(total.node)];
    // FLOPs in one nanosecond are GFLOP/s.
    const double nanos = static_cast<double>(total.nanos) / total.runs;
    absl::StrAppendFormat(&text, "%5.1f%% %12.2f %9.2f  %-24s %s\n",
                          all > 0 ? 100.0 * total.nanos / all : 0.0,
                          nanos / 1e3,
                          nanos > 0 ? NodeFlops(graph, node) / nanos : 0.0,
                          OpName(node.op), node.source);
  }
  return text;
}

std::string Profile::ChromeTrace(const Graph& graph) const {
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const int64_t origin = times_.empty() ? 0 : times_.front().begin_nanos;
  const char* separator = "\n";
  for (const NodeTime& time : times_) {
    const Node& node = graph.nodes()[static_cast<size_t>(time.node)];
    absl::StrAppendFormat(
        &text,
        "%s{\"ph\":\"X\",\"pid\":0,\"tid\":0,\"name\":%s,\"cat\":%s,"
        "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"run\":%d,\"node\":%d}}",
        separator, Quote(node.source), Quote(OpName(node.op)),
        (time.begin_nanos - origin) / 1e3,
        (time.end_nanos - time.begin_nanos) / 1e3, time.run, time.node);
    separator = ",\n";
  }
  return text + "\n]}\n";
}

}  // namespace gpupool::engine
