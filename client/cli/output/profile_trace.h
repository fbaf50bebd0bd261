// A profile of a job's steps or of a model's requests, read from the trace that
// the server writes. Pure; from any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/cli/output/profile_memory.h"

namespace gpupool::client {

// One run of a node of the compiled graph.
struct ProfiledNode {
  std::string layer;  // the op for a node of no layer
  std::string op;
  double micros = 0;
  double flops = 0;
  double bytes = 0;  // read and written
};

struct ProfileTrace {
  std::vector<ProfiledNode> nodes;
  std::string unit = "step";  // what is counted: the first program's name
  uint64_t steps = 0;         // number of these
  // From the begin of each program's run to its end, all runs together. The
  // rest beside the nodes are gaps.
  double span_micros = 0;
  std::vector<ProgramMemory> memory;  // empty if the trace has none

  // Returns the time of all nodes.
  double node_micros() const;
};

// Returns the trace, which has at least one node. INVALID_ARGUMENT for text
// that is no such trace.
absl::StatusOr<ProfileTrace> ParseProfileTrace(absl::string_view json);

// The nodes of one op or one layer.
struct ProfileGroup {
  std::string name;
  uint64_t calls = 0;
  double micros = 0;
  double flops = 0;
  double bytes = 0;
};

// Returns the groups by op or by layer, those that take longest first.
std::vector<ProfileGroup> GroupProfile(const ProfileTrace& trace,
                                       bool by_layer);

// Returns at most three sentences with numbers: where the time goes, and what
// would change that. The trace must have nodes.
std::string ProfileAdvice(const ProfileTrace& trace);

}  // namespace gpupool::client
