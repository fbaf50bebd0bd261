// How long does the scheduler take to decide, with 10,000 jobs waiting and 512
// devices (64 machines with 8) in use? One decision is one Step: an event comes
// in, and what must start, stop or make room goes out. Everything that the
// server does besides (the store, workers, messages) is left out.
//
// Jobs come and end in turn, so that as many wait all the time. Nine of ten
// want one device, the others 2, 4, 8 or 16; fifty sizes in bytes, from a tenth
// of a device to all of it, so that several share one; ten tenants. Each order
// decides about the same events, drawn from one seed. Told to stop, a job stops
// at once. The first tenth is not counted.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "scheduler/step.h"

namespace {

using namespace gpupool::scheduler;  // NOLINT(google-build-using-namespace)
using Clock = std::chrono::steady_clock;

constexpr uint32_t kMachines = 64;
constexpr uint32_t kDevicesEach = 8;
constexpr uint64_t kDeviceBytes = 1000;
constexpr size_t kWaiting = 10000;
constexpr size_t kTurns = 4000;  // a job comes, a job ends
constexpr uint32_t kSeed = 7;

class Pool {
 public:
  explicit Pool(Order order) {
    state_.SetPolicy({.order = order, .restart_cost = absl::Seconds(60)});
    for (uint32_t i = 0; i < kMachines * kDevicesEach; ++i) {
      state_.AddDevice(absl::StrCat("cuda:", i), "cuda", kDeviceBytes, 1,
                       i / kDevicesEach);
    }
    for (uint32_t i = 0; i < kMachines * kDevicesEach; ++i) {
      Send(WorkerReady{.device = DeviceId(i)});
    }
    while (state_.queue().size() < kWaiting) Submit();
    micros_.clear();
  }

  void Turn() {
    now_ += absl::Seconds(1);
    Send(TimerFired{});
    Submit();
    // Whichever runs: its last rank to end is what frees the devices.
    for (int tries = 0; tries < 100 && !running_.empty(); ++tries) {
      const size_t at = random_() % running_.size();
      const JobId id = running_[at];
      running_[at] = running_.back();
      running_.pop_back();
      const Job* job = state_.FindJob(id);
      if (job == nullptr || job->state != JobState::kRunning) continue;
      EndAll(*job, Outcome::kSucceeded);
      state_.ForgetJob(id);
      return;
    }
  }

  void Reset() { micros_.clear(); }
  std::vector<double> TakeMicros() { return std::move(micros_); }
  size_t waiting() const { return state_.queue().size(); }

 private:
  void Submit() {
    JobSubmitted event{.job = JobId(++last_job_)};
    event.tenant = absl::StrCat("tenant", random_() % 10);
    const uint32_t gangs[] = {2, 4, 8, 16};
    if (random_() % 10 == 0) event.device_count = gangs[random_() % 4];
    event.bytes = kDeviceBytes / 10 + (random_() % 50) * kDeviceBytes * 9 / 490;
    event.expected_run = absl::Seconds(1 << random_() % 17);
    Send(event);
  }

  void EndAll(const Job& job, Outcome outcome) {
    const AttemptRef attempt{job.id, job.attempt};
    const std::vector<Rank> ranks = job.ranks;
    for (const Rank& rank : ranks) {
      Send(AttemptEnded{rank.device, attempt, outcome, ""});
    }
  }

  void Send(const Event& event) {
    const auto start = Clock::now();
    const StepResult step = Step(state_, event, now_);
    micros_.push_back(
        std::chrono::duration<double, std::micro>(Clock::now() - start)
            .count());
    for (const Action& action : step.actions) {
      if (const auto* begun = std::get_if<StartJob>(&action)) {
        if (begun->rank != 0) continue;
        running_.push_back(begun->attempt.job);
        Send(AttemptStarted{begun->device, begun->attempt});
      } else if (const auto* stop = std::get_if<StopJob>(&action)) {
        Send(AttemptEnded{stop->device, stop->attempt, Outcome::kStopped, ""});
      }
    }
  }

  State state_;
  absl::Time now_ = absl::UnixEpoch();
  std::mt19937 random_{kSeed};
  uint64_t last_job_ = 0;
  std::vector<JobId> running_;
  std::vector<double> micros_;
};

double Quantile(const std::vector<double>& sorted, double share) {
  return sorted[static_cast<size_t>(share * (sorted.size() - 1))];
}

void Measure(Order order) {
  Pool pool(order);
  for (size_t turn = 0; turn < kTurns; ++turn) {
    if (turn == kTurns / 10) pool.Reset();
    pool.Turn();
  }
  std::vector<double> micros = pool.TakeMicros();
  std::sort(micros.begin(), micros.end());
  std::printf("%-9s %9zu %8zu %8.1f %8.1f %8.1f %9.1f\n",
              std::string(ToString(order)).c_str(), micros.size(),
              pool.waiting(), Quantile(micros, 0.5), Quantile(micros, 0.99),
              Quantile(micros, 0.999), micros.back());
  std::fflush(stdout);
}

}  // namespace

int main() {
  std::printf("microseconds of a decision, %u devices; target: p99 <= 1000\n",
              kMachines * kDevicesEach);
  std::printf("%-9s %9s %8s %8s %8s %8s %9s\n", "order", "decisions", "waiting",
              "p50", "p99", "p99.9", "longest");
  for (Order order :
       {Order::kFirstCome, Order::kPriority, Order::kBackfill,
        Order::kFairShare, Order::kLeastAttained, Order::kShortestRemaining}) {
    Measure(order);
  }
}
