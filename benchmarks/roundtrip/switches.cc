#include "benchmarks/roundtrip/switches.h"

#include <filesystem>
#include <fstream>
#include <string>

namespace gpupool::benchmarks {
namespace {

uint64_t SwitchesOfThread(const std::filesystem::path& thread) {
  static constexpr char kName[] = "voluntary_ctxt_switches:";
  std::ifstream status(thread / "status");
  std::string word;
  uint64_t switches = 0;
  while (status >> word) {
    if (word == kName) status >> switches;
  }
  return switches;
}

}  // namespace

uint64_t VoluntarySwitches(pid_t pid) {
  uint64_t switches = 0;
  std::error_code error;
  const std::string threads = "/proc/" + std::to_string(pid) + "/task";
  for (const auto& thread :
       std::filesystem::directory_iterator(threads, error)) {
    switches += SwitchesOfThread(thread.path());
    std::ifstream children(thread.path() / "children");
    pid_t child = 0;
    while (children >> child) switches += VoluntarySwitches(child);
  }
  return switches;
}

}  // namespace gpupool::benchmarks
