#include "engine/runtime/profiler.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

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

// Appends the events of one program.
class ProgramEvents {
 public:
  ProgramEvents(const TracedProgram& program, size_t thread, int64_t origin,
                std::string* text)
      : program_(program), thread_(thread), origin_(origin), text_(text) {}

  void Write() {
    Begin("M", "thread_name");
    absl::StrAppend(text_, ",\"args\":{\"name\":", Quote(program_.name), "}}");
    bool at_peak = false;
    int run = -1;
    for (const NodeTime& time : program_.profile->times()) {
      // Viewers show the counters of all programs as one, and another program
      // may have run in between.
      if (std::exchange(run, time.run) != time.run) {
        planned_.reset();
        held_.reset();
      }
      if (program_.arena != nullptr) {
        const auto node = static_cast<size_t>(time.node);
        Count("planned bytes", time,
              program_.outside_bytes + program_.arena->live_bytes[node],
              &planned_);
        Count("measured bytes", time, time.held_bytes, &held_);
        if (!at_peak && time.node == program_.arena->peak_node) {
          at_peak = true;
          Peak(time);
        }
      }
      Run(time);
    }
  }

 private:
  void Begin(const char* phase, absl::string_view name) {
    absl::StrAppendFormat(
        text_, "%s\n{\"ph\":\"%s\",\"pid\":0,\"tid\":%u,\"name\":%s",
        text_->empty() ? "" : ",", phase, thread_, Quote(name));
  }
  double Micros(int64_t nanos) const { return (nanos - origin_) / 1e3; }

  void Run(const NodeTime& time) {
    const Graph& graph = *program_.graph;
    const Node& node = graph.nodes()[static_cast<size_t>(time.node)];
    Begin("X", node.source.empty() ? OpName(node.op) : node.source);
    absl::StrAppendFormat(
        text_,
        ",\"cat\":%s,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"run\":%d,"
        "\"node\":%d,\"flops\":%u,\"bytes\":%u}}",
        Quote(OpName(node.op)), Micros(time.begin_nanos),
        (time.end_nanos - time.begin_nanos) / 1e3, time.run, time.node,
        NodeFlops(graph, node), NodeBytes(graph, node));
  }

  // Writes a counter, unless it has the same value as before in this run.
  void Count(absl::string_view name, const NodeTime& time, uint64_t value,
             std::optional<uint64_t>* before) {
    if (*before == value) return;
    *before = value;
    Begin("C", name);
    absl::StrAppendFormat(text_, ",\"ts\":%.3f,\"args\":{\"value\":%u}}",
                          Micros(time.begin_nanos), value);
  }

  void Peak(const NodeTime& time) {
    const ArenaUse& arena = *program_.arena;
    Begin("i", "planned peak");
    absl::StrAppendFormat(
        text_,
        ",\"s\":\"t\",\"ts\":%.3f,\"args\":{\"node\":%d,\"bytes\":%u,"
        "\"arena\":%u,\"outside\":%u,\"values\":[",
        Micros(time.begin_nanos), time.node,
        program_.outside_bytes + arena.peak_bytes(), program_.arena_bytes,
        program_.outside_bytes);
    const char* separator = "";
    for (const LiveValue& value : arena.largest) {
      absl::StrAppend(
          text_, separator, "{\"name\":", Quote(value.name),
          ",\"layer\":", Quote(value.layer), ",\"op\":", Quote(value.op),
          ",\"kind\":", Quote(value.kind), ",\"bytes\":", value.bytes, "}");
      separator = ",";
    }
    *text_ += "]}}";
  }

  const TracedProgram& program_;
  const size_t thread_;
  const int64_t origin_;
  std::string* const text_;
  std::optional<uint64_t> planned_;
  std::optional<uint64_t> held_;
};

}  // namespace

uint64_t NodeBytes(const Graph& graph, const Node& node) {
  uint64_t bytes = 0;
  for (const ValueId id : node.inputs) bytes += graph.value(id).bytes();
  for (const ValueId id : node.outputs) bytes += graph.value(id).bytes();
  return bytes;
}

void Profile::Add(int node, int64_t begin_nanos, int64_t end_nanos,
                  uint64_t held_bytes) {
  if (totals_.size() <= static_cast<size_t>(node)) {
    totals_.resize(static_cast<size_t>(node) + 1);
  }
  NodeTotal& total = totals_[static_cast<size_t>(node)];
  total.node = node;
  ++total.runs;
  total.nanos += end_nanos - begin_nanos;
  if (runs_ < traced_runs_) {
    times_.push_back({node, begin_nanos, end_nanos, runs_, held_bytes});
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
  std::string events;
  for (size_t thread = 0; thread < programs.size(); ++thread) {
    ProgramEvents(programs[thread], thread, origin, &events).Write();
  }
  return absl::StrCat("{\"displayTimeUnit\":\"ns\",\"traceEvents\":[", events,
                      "\n]}\n");
}

}  // namespace gpupool::engine
