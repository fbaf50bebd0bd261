// How long does a request take from the daemon to a worker process and back,
// with nothing computed? Beside it, the least that the kernel asks for the same
// hand-over: one byte over a socket pair, there and back.
#include "server/ipc/slot_ring.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <memory>
#include <vector>

#include "server/ipc/slot_ring_server.h"

namespace {

using gpupool::server::Slot;
using gpupool::server::SlotRingClient;
using gpupool::server::SlotRingServer;
using gpupool::server::UniqueFd;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 2000;
constexpr int kRounds = 50000;

struct Percentiles {
  double p50_us;
  double p99_us;
};

Percentiles Summarize(std::vector<double> micros) {
  std::sort(micros.begin(), micros.end());
  return {micros[micros.size() / 2], micros[micros.size() * 99 / 100]};
}

template <typename Round>
Percentiles Measure(Round round) {
  std::vector<double> micros;
  for (int i = 0; i < kWarmUp + kRounds; ++i) {
    const Clock::time_point start = Clock::now();
    round();
    const std::chrono::duration<double, std::micro> took = Clock::now() - start;
    if (i >= kWarmUp) micros.push_back(took.count());
  }
  return Summarize(std::move(micros));
}

UniqueFd CopyOf(int fd) { return UniqueFd(::fcntl(fd, F_DUPFD_CLOEXEC, 3)); }

[[noreturn]] void RunWorker(const std::array<int, 3>& fds) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto server =
      SlotRingServer::Attach(CopyOf(fds[0]), CopyOf(fds[1]), CopyOf(fds[2]));
  if (!server.ok()) std::abort();
  while (true) {
    (*server)->Wait(-1, absl::InfiniteDuration());
    while (auto request = (*server)->Next()) {
      (*server)->Complete(*request, absl::OkStatus());
    }
  }
}

Percentiles MeasureRing() {
  auto ring = SlotRingClient::Create({8, 4096});
  if (!ring.ok()) std::abort();
  const pid_t worker = ::fork();
  if (worker == 0) RunWorker((*ring)->descriptors());
  // The answer is counted where the daemon's callback runs, as the batcher
  // sees it; the next request leaves from there.
  std::vector<double> micros;
  std::promise<void> finished;
  Clock::time_point start;
  int round = 0;
  std::function<void(Slot)> submit = [&](Slot slot) {
    start = Clock::now();
    (*ring)->Submit(std::move(slot), [&](absl::Status status, Slot answer) {
      const std::chrono::duration<double, std::micro> took =
          Clock::now() - start;
      if (!status.ok()) std::abort();
      if (round >= kWarmUp) micros.push_back(took.count());
      if (++round == kWarmUp + kRounds) return finished.set_value();
      submit(std::move(answer));
    });
  };
  submit(*(*ring)->Acquire());
  finished.get_future().wait();
  (*ring)->FailAll(absl::UnavailableError("measured"));
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
  return Summarize(std::move(micros));
}

Percentiles MeasureSocketPair() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::abort();
  const pid_t worker = ::fork();
  char byte = 0;
  if (worker == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (::read(ends[1], &byte, 1) == 1 && ::write(ends[1], &byte, 1) == 1) {
    }
    ::_exit(0);
  }
  const Percentiles result = Measure([&] {
    if (::write(ends[0], &byte, 1) != 1 || ::read(ends[0], &byte, 1) != 1) {
      std::abort();
    }
  });
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
  return result;
}

void Print(const char* name, double ours, double peer) {
  std::printf(
      "{\"bench\":\"slot-ring\",\"case\":\"%s\",\"ours\":%.2f,\"peer\":%.2f,"
      "\"ratio\":%.2f,\"unit\":\"us\"}\n",
      name, ours, peer, ours / peer);
}

}  // namespace

int main() {
  const Percentiles peer = MeasureSocketPair();
  const Percentiles ours = MeasureRing();
  Print("round-trip-p50", ours.p50_us, peer.p50_us);
  Print("round-trip-p99", ours.p99_us, peer.p99_us);
  return 0;
}
