#include "client/cli/output/profile_memory.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace gpupool::client {

uint64_t ProgramMemory::most_measured() const {
  uint64_t most = 0;
  for (const NodeMemory& node : nodes) most = std::max(most, node.measured);
  return most;
}

void ProfileMemoryReader::Take(const nlohmann::json& event) {
  const std::string phase = event.at("ph");
  const int64_t program = event.value("tid", int64_t{0});
  if (phase == "C") {
    const std::string name = event.at("name");
    if (name != "planned bytes" && name != "measured bytes") return;
    const uint64_t value = event.at("args").at("value");
    Reading& reading = readings_[program];
    (name == "planned bytes" ? reading.planned : reading.measured) = value;
    return;
  }
  const auto reading = readings_.find(program);
  if (reading == readings_.end()) return;
  if (phase == "X") TakeNode(event, reading->second);
  if (phase == "i" && event.at("name") == "planned peak") {
    TakePeak(event.at("args"), reading->second);
  }
}

void ProfileMemoryReader::TakeNode(const nlohmann::json& event,
                                   Reading& reading) {
  std::vector<NodeMemory>& nodes = reading.memory.nodes;
  const int64_t number = event.at("args").at("node");
  const auto [at, is_new] = reading.positions.emplace(number, nodes.size());
  if (is_new) nodes.push_back({event.at("name"), event.at("cat")});
  NodeMemory& node = nodes[at->second];
  node.planned = reading.planned;
  node.measured = std::max(node.measured, reading.measured);
}

void ProfileMemoryReader::TakePeak(const nlohmann::json& args,
                                   Reading& reading) {
  reading.peak_node = args.at("node");
  reading.memory.arena_bytes = args.at("arena");
  reading.memory.outside_bytes = args.at("outside");
  reading.memory.values.clear();
  for (const auto& value : args.at("values")) {
    reading.memory.values.push_back({value.at("name"), value.at("layer"),
                                     value.at("op"), value.at("kind"),
                                     value.at("bytes")});
  }
}

std::vector<ProgramMemory> ProfileMemoryReader::Programs(
    const std::map<int64_t, std::string>& names) const {
  std::vector<ProgramMemory> programs;
  for (const auto& [number, reading] : readings_) {
    const auto peak = reading.positions.find(reading.peak_node);
    if (peak == reading.positions.end()) continue;
    ProgramMemory& memory = programs.emplace_back(reading.memory);
    memory.peak = peak->second;
    const auto name = names.find(number);
    if (name != names.end()) memory.program = name->second;
  }
  return programs;
}

}  // namespace gpupool::client
