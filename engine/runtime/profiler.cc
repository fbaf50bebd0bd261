#include "engine/runtime/profiler.h"

#include <algorithm>
#include <limits>

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

uint64_t NodeBytes(const Graph& graph, const Node& node) {
  uint64_t bytes = 0;
  for (const ValueId id : node.inputs) bytes += graph.value(id).bytes();
  for (const ValueId id : node.outputs) bytes += graph.value(id).bytes();
  return bytes;
}

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

std::string ChromeTrace(absl::Span<const TracedProgram> programs) {
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const TracedProgram& program : programs) {
    for (const NodeTime& time : program.profile->times()) {
      origin = std::min(origin, time.begin_nanos);
    }
  }
  std::string text = "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
  const char* separator = "\n";
  for (size_t thread = 0; thread < programs.size(); ++thread) {
    absl::StrAppendFormat(&text,
                          "%s{\"ph\":\"M\",\"pid\":0,\"tid\":%u,"
                          "\"name\":\"thread_name\",\"args\":{\"name\":%s}}",
                          separator, thread, Quote(programs[thread].name));
    separator = ",\n";
    for (const NodeTime& time : programs[thread].profile->times()) {
      const Graph& graph = *programs[thread].graph;
      const Node& node = graph.nodes()[static_cast<size_t>(time.node)];
      absl::StrAppendFormat(
          &text,
          "%s{\"ph\":\"X\",\"pid\":0,\"tid\":%u,\"name\":%s,\"cat\":%s,"
          "\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"run\":%d,\"node\":%d,"
          "\"flops\":%u,\"bytes\":%u}}",
          separator, thread,
          Quote(node.source.empty() ? OpName(node.op) : node.source),
          Quote(OpName(node.op)), (time.begin_nanos - origin) / 1e3,
          (time.end_nanos - time.begin_nanos) / 1e3, time.run, time.node,
          NodeFlops(graph, node), NodeBytes(graph, node));
    }
  }
  return text + "\n]}\n";
}

}  // namespace gpupool::engine
