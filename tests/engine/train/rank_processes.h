// The ranks of a group as processes, for tests. They are forks of the test,
// which therefore must have no other threads; they end with it at the latest.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace gpupool::engine {

class RankProcesses {
 public:
  // Runs `body(rank)` in each of `ranks` processes. What it returns (less
  // than 64 KiB) can be read here.
  RankProcesses(int ranks, const std::function<std::string(int)>& body);
  // Kills what still runs.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // What the rank's body returned; empty when the process ended otherwise.
  // Waits for it; "timeout" when it does not come within a minute.
  std::string Result(int rank);

 private:
  struct Process {
    pid_t id;
    int pipe;
  };
  std::vector<Process> processes_;
};

}  // namespace gpupool::engine
