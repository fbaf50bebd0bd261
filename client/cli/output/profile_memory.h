// The memory along a profile's steps, read from the events of its trace. Pure;
// from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace gpupool::client {

// The bytes while one node of a program runs.
struct NodeMemory {
  std::string layer;  // the op for a node of no layer
  std::string op;
  uint64_t planned = 0;   // live by the plan, with everything beside the arena
  uint64_t measured = 0;  // given by the allocator; the most of all runs
};

// A value that lives at the peak of the plan.
struct PeakValue {
  std::string name;   // empty for scratch
  std::string layer;  // empty: of no layer
  std::string op;     // empty for an input
  std::string kind;   // "activation", "gradient", "workspace" and so on
  uint64_t bytes = 0;
};

struct ProgramMemory {
  std::string program;
  // In the order in which they run; at least one.
  std::vector<NodeMemory> nodes;
  size_t peak = 0;                // position of the planned peak in `nodes`
  uint64_t arena_bytes = 0;       // planned
  uint64_t outside_bytes = 0;     // planned beside the arena
  std::vector<PeakValue> values;  // the largest at the peak, largest first

  // Returns the most measured bytes.
  uint64_t most_measured() const;
};

class ProfileMemoryReader {
 public:
  // Takes an event, in the order of the trace. Throws nlohmann::json::exception
  // if a field is missing or has another type.
  void Take(const nlohmann::json& event);
  // Returns the programs that have run, each with its name; none if the trace
  // has no memory.
  std::vector<ProgramMemory> Programs(
      const std::map<int64_t, std::string>& names) const;

 private:
  struct Reading {
    ProgramMemory memory;
    std::map<int64_t, size_t> positions;  // in memory.nodes, by node
    uint64_t planned = 0;                 // counters at the next node
    uint64_t measured = 0;
    int64_t peak_node = -1;
  };
  void TakeNode(const nlohmann::json& event, Reading& reading);
  void TakePeak(const nlohmann::json& args, Reading& reading);

  std::map<int64_t, Reading> readings_;  // by program; those with a counter
};

}  // namespace gpupool::client
