// The ranks of a group as processes, for tests. They are forks of the test, so
// the test must not have other threads. They end at the latest with the test.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

namespace gpupool::engine {

class RankProcesses {
 public:
  // Runs `body(rank)` in each of `ranks` processes. Result returns its result,
  // which must have less than 64 KiB.
  RankProcesses(int ranks, const std::function<std::string(int)>& body);
  // Kills the processes that still run.
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;
  RankProcesses& operator=(const RankProcesses&) = delete;

  // Waits for the rank's process and returns the result of its body. Returns ""
  // if the process ended in another way, and "timeout" after a minute.
  std::string Result(int rank);

 private:
  struct Process {
    pid_t id;
    int pipe;
  };
  std::vector<Process> processes_;
};

}  // namespace gpupool::engine
