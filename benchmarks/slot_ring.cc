// How long does a request take from the daemon to a worker process and back if
// nothing is computed? Measures requests that follow each other directly, and
// requests before which both sides sleep. The peer is the shortest hand-over of
// the kernel: one byte over a socket pair and back.
#include "server/ipc/slot_ring.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "server/ipc/slot_ring_server.h"

namespace {

using gpupool::server::Slot;
using gpupool::server::SlotRingClient;
using gpupool::server::SlotRingServer;
using gpupool::server::UniqueFd;
using Clock = std::chrono::steady_clock;

constexpr int kWarmUp = 100;

// `pause` before each round puts both sides to sleep.
struct Pace {
  int rounds;
  std::chrono::microseconds pause;
};
constexpr Pace kBackToBack = {50000, std::chrono::microseconds(0)};
constexpr Pace kAfterIdle = {500, std::chrono::milliseconds(2)};

struct Percentiles {
  double p50_us;
  double p99_us;
};

Percentiles Summarize(std::vector<double> micros) {
  std::sort(micros.begin(), micros.end());
  return {micros[micros.size() / 2], micros[micros.size() * 99 / 100]};
}

// Calls `round`, which makes one round trip and returns the time when it was
// over.
template <typename Round>
Percentiles Measure(const Pace& pace, Round round) {
  std::vector<double> micros;
  for (int i = 0; i < kWarmUp + pace.rounds; ++i) {
    if (pace.pause.count() > 0) std::this_thread::sleep_for(pace.pause);
    const Clock::time_point start = Clock::now();
    const std::chrono::duration<double, std::micro> took = round() - start;
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

// A ring with a worker process, which is killed at the end.
class RingWithWorker {
 public:
  RingWithWorker() {
    auto ring = SlotRingClient::Create({8, 4096});
    if (!ring.ok()) std::abort();
    ring_ = *std::move(ring);
    worker_ = ::fork();
    if (worker_ == 0) RunWorker(ring_->descriptors());
  }
  RingWithWorker(const RingWithWorker&) = delete;
  RingWithWorker& operator=(const RingWithWorker&) = delete;
  ~RingWithWorker() {
    ring_->FailAll(absl::UnavailableError("measured"));
    ::kill(worker_, SIGKILL);
    ::waitpid(worker_, nullptr, 0);
  }
  SlotRingClient& ring() { return *ring_; }

 private:
  std::shared_ptr<SlotRingClient> ring_;
  pid_t worker_;
};

// Each answer sends the next request, in the daemon's callback.
Percentiles MeasureRingBackToBack() {
  RingWithWorker pair;
  std::vector<double> micros;
  std::promise<void> finished;
  Clock::time_point start;
  int round = 0;
  std::function<void(Slot)> submit = [&](Slot slot) {
    start = Clock::now();
    pair.ring().Submit(std::move(slot), [&](absl::Status status, Slot answer) {
      const std::chrono::duration<double, std::micro> took =
          Clock::now() - start;
      if (!status.ok()) std::abort();
      if (round >= kWarmUp) micros.push_back(took.count());
      if (++round == kWarmUp + kBackToBack.rounds) return finished.set_value();
      submit(std::move(answer));
    });
  };
  submit(*pair.ring().Acquire());
  finished.get_future().wait();
  return Summarize(std::move(micros));
}

Percentiles MeasureRingAfterIdle() {
  RingWithWorker pair;
  return Measure(kAfterIdle, [&] {
    std::promise<Clock::time_point> end;
    pair.ring().Submit(*pair.ring().Acquire(), [&](absl::Status status, Slot) {
      if (!status.ok()) std::abort();
      end.set_value(Clock::now());
    });
    return end.get_future().get();
  });
}

Percentiles MeasureSocketPair(const Pace& pace) {
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
  const Percentiles result = Measure(pace, [&] {
    if (::write(ends[0], &byte, 1) != 1 || ::read(ends[0], &byte, 1) != 1) {
      std::abort();
    }
    return Clock::now();
  });
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
  ::close(ends[0]);
  ::close(ends[1]);
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
  const Percentiles peer = MeasureSocketPair(kBackToBack);
  const Percentiles ours = MeasureRingBackToBack();
  Print("round-trip-p50", ours.p50_us, peer.p50_us);
  Print("round-trip-p99", ours.p99_us, peer.p99_us);
  const Percentiles idle_peer = MeasureSocketPair(kAfterIdle);
  const Percentiles idle_ours = MeasureRingAfterIdle();
  Print("after-idle-p50", idle_ours.p50_us, idle_peer.p50_us);
  return 0;
}
