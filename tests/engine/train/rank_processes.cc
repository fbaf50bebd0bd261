#include "tests/engine/train/rank_processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

constexpr int kPatienceMilliseconds = 60000;

[[noreturn]] void RunChild(int pipe, pid_t parent, int rank,
                           const std::function<std::string(int)>& body) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  const std::string result = body(rank);
  const ssize_t written = write(pipe, result.data(), result.size());
  // Exit handlers belong to the test, so they must not run here.
  _exit(written == static_cast<ssize_t>(result.size()) ? 0 : 1);
}

}  // namespace

RankProcesses::RankProcesses(int ranks,
                             const std::function<std::string(int)>& body) {
  const pid_t parent = getpid();
  for (int rank = 0; rank < ranks; ++rank) {
    int ends[2];
    GPUPOOL_CHECK(pipe(ends) == 0);
    const pid_t id = fork();
    GPUPOOL_CHECK(id >= 0);
    if (id == 0) RunChild(ends[1], parent, rank, body);
    close(ends[1]);
    processes_.push_back({id, ends[0]});
  }
}

RankProcesses::~RankProcesses() {
  for (const Process& process : processes_) {
    kill(process.id, SIGKILL);
    waitpid(process.id, nullptr, 0);
    close(process.pipe);
  }
}

std::string RankProcesses::Result(int rank) {
  const int pipe = processes_[static_cast<size_t>(rank)].pipe;
  std::string text;
  char block[4096];
  while (true) {
    pollfd ready{.fd = pipe, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, kPatienceMilliseconds) <= 0) return "timeout";
    const ssize_t got = read(pipe, block, sizeof(block));
    if (got <= 0) return text;
    text.append(block, static_cast<size_t>(got));
  }
}

}  // namespace gpupool::engine
