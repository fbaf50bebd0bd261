#include "client/cli/output/profile_trace.h"

#include <algorithm>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

// A node below this many FLOPs for each byte waits for memory on any device.
constexpr double kMemoryBound = 4;
constexpr double kShortMicros = 20;

struct Span {
  double begin = std::numeric_limits<double>::infinity();
  double end = 0;
};

double PercentOf(double part, double whole) {
  return whole > 0 ? 100 * part / whole : 0;
}

std::string BusiestText(const ProfileTrace& trace) {
  const ProfileGroup busiest = GroupProfile(trace, false).front();
  const auto steps = static_cast<double>(trace.steps);
  std::string text =
      absl::StrFormat("%s takes %.0f%% of the %.3g ms of a %s", busiest.name,
                      PercentOf(busiest.micros, trace.node_micros()),
                      trace.node_micros() / steps / 1e3, trace.unit);
  if (busiest.flops > 0 && busiest.micros > 0) {
    absl::StrAppend(&text, ", at ",
                    FormatCount(busiest.flops / busiest.micros * 1e6),
                    " FLOPs a second");
  }
  return text + ".";
}

std::string MemoryText(const ProfileTrace& trace) {
  double micros = 0, bytes = 0;
  for (const ProfiledNode& node : trace.nodes) {
    if (node.flops >= kMemoryBound * node.bytes) continue;
    micros += node.micros;
    bytes += node.bytes;
  }
  const double share = PercentOf(micros, trace.node_micros());
  if (share < 20 || micros <= 0) return "";
  return absl::StrFormat(
      "%.0f%% of the time is in nodes with less than %.0f FLOPs for each byte, "
      "which move %s bytes a second: on a GPU, 16-bit precision halves their "
      "bytes.",
      share, kMemoryBound, FormatCount(bytes / micros * 1e6));
}

// Returns what makes a step or a request larger.
absl::string_view BatchWord(const ProfileTrace& trace) {
  return trace.unit == "step" ? "batch_size" : "batch";
}

std::string ShortText(const ProfileTrace& trace) {
  const auto is_short = [](const ProfiledNode& node) {
    return node.micros < kShortMicros;
  };
  const auto count =
      std::count_if(trace.nodes.begin(), trace.nodes.end(), is_short);
  const double gaps =
      PercentOf(trace.span_micros - trace.node_micros(), trace.span_micros);
  if (gaps >= 10) {
    return absl::StrFormat(
        "%.0f%% of the time passes between nodes, of which %d of %d take less "
        "than %.0f us: a larger %s makes nodes longer and gaps rarer.",
        gaps, count, trace.nodes.size(), kShortMicros, BatchWord(trace));
  }
  if (PercentOf(static_cast<double>(count),
                static_cast<double>(trace.nodes.size())) < 50) {
    return "";
  }
  return absl::StrFormat(
      "%d of %d nodes take less than %.0f us: a larger %s uses the device "
      "better.",
      count, trace.nodes.size(), kShortMicros, BatchWord(trace));
}

}  // namespace

double ProfileTrace::node_micros() const {
  double sum = 0;
  for (const ProfiledNode& node : nodes) sum += node.micros;
  return sum;
}

absl::StatusOr<ProfileTrace> ParseProfileTrace(absl::string_view json) {
  ProfileTrace trace;
  std::map<std::pair<int64_t, int64_t>, Span> spans;  // by program and run
  std::map<int64_t, std::string> programs;
  ProfileMemoryReader memory;
  // The library reports errors by exceptions. They are caught here.
  try {
    const auto parsed = nlohmann::json::parse(json.begin(), json.end());
    for (const auto& event : parsed.at("traceEvents")) {
      if (event.at("ph") == "M") {
        programs[event.value("tid", 0)] = event.at("args").at("name");
      }
      memory.Take(event);
      if (event.at("ph") != "X") continue;
      const auto& args = event.at("args");
      ProfiledNode node{event.at("name"), event.at("cat"), event.at("dur"),
                        args.value("flops", 0.0), args.value("bytes", 0.0)};
      const int64_t program = event.at("tid"), run = args.at("run");
      Span& span = spans[{program, run}];
      const double begin = event.at("ts");
      span.begin = std::min(span.begin, begin);
      span.end = std::max(span.end, begin + node.micros);
      trace.nodes.push_back(std::move(node));
    }
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("the trace cannot be read: ", error.what()));
  }
  if (trace.nodes.empty()) {
    return absl::InvalidArgumentError("the trace has no nodes");
  }
  trace.memory = memory.Programs(programs);
  if (!programs[0].empty()) trace.unit = programs[0];
  for (const auto& [key, span] : spans) {
    trace.span_micros += span.end - span.begin;
    // The first program runs once a step, unless that of a last batch with
    // fewer rows does.
    const int64_t program = key.first;
    const bool is_step =
        program == 0 || programs[program] == absl::StrCat("short ", trace.unit);
    if (is_step) ++trace.steps;
  }
  trace.steps = std::max<uint64_t>(trace.steps, 1);
  return trace;
}

std::vector<ProfileGroup> GroupProfile(const ProfileTrace& trace,
                                       bool by_layer) {
  std::map<std::string, ProfileGroup> groups;
  for (const ProfiledNode& node : trace.nodes) {
    ProfileGroup& group = groups[by_layer ? node.layer : node.op];
    ++group.calls;
    group.micros += node.micros;
    group.flops += node.flops;
    group.bytes += node.bytes;
  }
  std::vector<ProfileGroup> sorted;
  for (auto& [name, group] : groups) {
    group.name = name;
    sorted.push_back(std::move(group));
  }
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const ProfileGroup& a, const ProfileGroup& b) {
                     return a.micros > b.micros;
                   });
  return sorted;
}

std::string ProfileAdvice(const ProfileTrace& trace) {
  std::vector<std::string> sentences;
  for (std::string text :
       {BusiestText(trace), MemoryText(trace), ShortText(trace)}) {
    if (!text.empty()) sentences.push_back(std::move(text));
  }
  return absl::StrJoin(sentences, " ");
}

}  // namespace gpupool::client
