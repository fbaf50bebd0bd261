// How long does the scheduler take to decide while 10,000 jobs wait and 512
// devices (64 machines with 8) are in use?
//
// One decision is one Step: it takes an event and returns what must start, stop
// or make room. Everything else that the server does is left out (the store,
// workers, messages). The figures are processor time, and nothing in a Step
// ever waits.
//
// In each turn a second passes, a timer fires, a job is submitted, three jobs
// report their steps, and a job ends with all its ranks, so that the number of
// waiting jobs stays the same. Each of these is an event, and so is every
// start, stop and end that follows. The jobs:
//   devices  nine of ten want one device, the others 2, 4, 8 or 16
//   bytes    fifty sizes, from a tenth of a device to all of it, so that
//            several jobs share a device
//   tenants  ten
//   times    every tenth report says that the job will take a fifth longer or
//            shorter than was known
//
// Each order decides about the same stream of jobs, which is drawn from one
// seed. A job that is told to stop stops at once. The first tenth of the turns
// is not counted. The digest covers all decisions: a change that only affects
// the speed does not change it. The last row has four queues at once.
//
//   decision_latency [TURNS [CASE...]]
//
// CASE is ORDER, ORDER+PLACEMENT or 4-queues.
#include <time.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "scheduler/step/step.h"

namespace {

using namespace gpupool::scheduler;  // NOLINT(google-build-using-namespace)

constexpr uint32_t kMachines = 64;
constexpr uint32_t kDevicesEach = 8;
constexpr uint64_t kDeviceBytes = 1000;
constexpr size_t kWaiting = 10000;
constexpr int kTurns = 4000;
constexpr int kReports = 3;  // per turn
constexpr uint32_t kSeed = 7;

enum Kind { kSubmit, kReport, kTimer, kStart, kEnd, kKinds };
constexpr const char* kNames[] = {"submit", "report", "timer", "start", "end"};

// Returns the processor time of this thread, so that other work on the machine
// is not counted.
double ProcessorMicros() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 +
         static_cast<double>(now.tv_nsec) / 1e3;
}

class Pool {
 public:
  explicit Pool(const QueuePolicy& policy) {
    state_.SetPolicy(policy);
    for (uint32_t i = 0; i < kMachines * kDevicesEach; ++i) {
      state_.AddDevice(absl::StrCat("cuda:", i), "cuda", kDeviceBytes,
                       {.node = i / kDevicesEach});
    }
    for (uint32_t i = 0; i < kMachines * kDevicesEach; ++i) {
      Send(WorkerReady{.device = DeviceId(i)});
    }
    while (state_.queue().size() < kWaiting) Submit();
    Reset();
  }

  void Turn() {
    now_ += absl::Seconds(1);
    Send(TimerFired{});
    Submit();
    for (int i = 0; i < kReports; ++i) Report();
    // Any running job will do: the end of its last rank frees the devices.
    if (const Job* job = TakeRunning()) {
      const JobId id = job->id;
      EndAll(*job, Outcome::kSucceeded);
      state_.ForgetJob(id);
    }
  }

  void Reset() { micros_ = {}; }
  const std::array<std::vector<double>, kKinds>& micros() const {
    return micros_;
  }
  size_t waiting() const { return state_.queue().size(); }
  uint64_t digest() const { return digest_; }

 private:
  void Submit() {
    JobSubmitted event{.id = JobId(++last_job_)};
    event.tenant = absl::StrCat("tenant", random_() % 10);
    const uint32_t gangs[] = {2, 4, 8, 16};
    if (random_() % 10 == 0) event.device_count = gangs[random_() % 4];
    event.bytes = kDeviceBytes / 10 + (random_() % 50) * kDeviceBytes * 9 / 490;
    event.expected_run = absl::Seconds(1 << random_() % 17);
    const auto& queues = state_.policy().queues;
    if (!queues.empty())
      event.queue_name = queues[last_job_ % queues.size()].name;
    Send(event);
  }

  void Report() {
    const Job* job = TakeRunning();
    if (job == nullptr) return;
    running_.push_back(job->id);
    ProgressMade event{job->ranks.front().device, {job->id, job->attempt}};
    const absl::Duration left = *job->expected_run - job->Attained(now_);
    event.remaining = std::max(left, absl::Seconds(1));
    if (random_() % 10 == 0) *event.remaining *= random_() % 2 ? 0.8 : 1.2;
    Send(event);
  }

  // Returns a running job, or null.
  const Job* TakeRunning() {
    for (int tries = 0; tries < 100 && !running_.empty(); ++tries) {
      std::swap(running_[random_() % running_.size()], running_.back());
      const Job* job = state_.FindJob(running_.back());
      running_.pop_back();
      if (job != nullptr && job->state == JobState::kRunning) return job;
    }
    return nullptr;
  }

  void EndAll(const Job& job, Outcome outcome) {
    const AttemptRef attempt{job.id, job.attempt};
    const Ranks ranks = job.ranks;
    for (const Rank& rank : ranks) {
      Send(AttemptEnded{rank.device, attempt, outcome, ""});
    }
  }

  static Kind KindOf(const Event& event) {
    if (std::holds_alternative<JobSubmitted>(event)) return kSubmit;
    if (std::holds_alternative<ProgressMade>(event)) return kReport;
    if (std::holds_alternative<TimerFired>(event)) return kTimer;
    return std::holds_alternative<AttemptEnded>(event) ? kEnd : kStart;
  }

  void Note(uint64_t word) { digest_ = (digest_ ^ word) * 0x100000001b3; }

  void Send(const Event& event) {
    const double start = ProcessorMicros();
    const StepResult step = Step(state_, event, now_);
    micros_[KindOf(event)].push_back(ProcessorMicros() - start);
    for (const Action& action : step.actions) {
      Note(action.index());
      if (const auto* begun = std::get_if<StartJob>(&action)) {
        Note(begun->attempt.job.value());
        Note(begun->device.value());
        if (begun->rank != 0) continue;
        running_.push_back(begun->attempt.job);
        Send(AttemptStarted{begun->device, begun->attempt});
      } else if (const auto* stop = std::get_if<StopJob>(&action)) {
        Note(stop->attempt.job.value());
        Send(AttemptEnded{stop->device, stop->attempt, Outcome::kStopped, ""});
      }
    }
  }

  State state_;
  absl::Time now_ = absl::UnixEpoch();
  std::mt19937 random_{kSeed};
  uint64_t last_job_ = 0;
  std::vector<JobId> running_;
  std::array<std::vector<double>, kKinds> micros_;
  uint64_t digest_ = 0xcbf29ce484222325;
};

double Quantile(std::vector<double>& micros, double share) {
  if (micros.empty()) return 0;
  const auto at =
      micros.begin() +
      static_cast<int64_t>(share * static_cast<double>(micros.size() - 1));
  std::nth_element(micros.begin(), at, micros.end());
  return *at;
}

// Returns four queues with a quarter of the jobs each. The second preempts jobs
// of the others, and the last may use half of the devices.
QueuePolicy FourQueues() {
  QueuePolicy policy{.restart_cost = absl::Seconds(60)};
  policy.queues = {{.name = "default", .order = Order::kPriority},
                   {.name = "short",
                    .order = Order::kLeastAttained,
                    .rank = 2,
                    .preempts = true},
                   {.name = "known", .order = Order::kShortestRemaining},
                   {.name = "planned", .order = Order::kBackfill, .rank = 1}};
  for (uint32_t i = 0; i < kMachines * kDevicesEach / 2; ++i) {
    policy.queues.back().devices.push_back(absl::StrCat("cuda:", i));
  }
  return policy;
}

constexpr const char* kFourQueues = "4-queues";

void Measure(const std::string& name, const QueuePolicy& policy, int turns) {
  Pool pool(policy);
  for (int turn = 0; turn < turns; ++turn) {
    if (turn == turns / 10) pool.Reset();
    pool.Turn();
  }
  std::vector<double> all;
  for (const std::vector<double>& of_kind : pool.micros()) {
    all.insert(all.end(), of_kind.begin(), of_kind.end());
  }
  std::printf("%-9s %9zu %8zu %8.1f %8.1f %8.1f %9.1f ", name.c_str(),
              all.size(), pool.waiting(), Quantile(all, 0.5),
              Quantile(all, 0.99), Quantile(all, 0.999), Quantile(all, 1));
  for (std::vector<double> of_kind : pool.micros()) {
    std::printf(" %7.1f", Quantile(of_kind, 0.99));
  }
  std::printf("  %016llx\n", static_cast<unsigned long long>(pool.digest()));
  std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) {
  int turns = kTurns;
  if (argc > 1 && (!absl::SimpleAtoi(argv[1], &turns) || turns < 1)) {
    std::fprintf(stderr, "turns is '%s'; it must be at least 1\n", argv[1]);
    return 2;
  }
  std::vector<std::string> names = {"fifo",      "priority", "easy",
                                    "fair",      "las",      "srs",
                                    "fifo+pack", "las+pack", kFourQueues};
  if (argc > 2) names.assign(argv + 2, argv + argc);
  std::vector<QueuePolicy> policies;
  for (const std::string& name : names) {
    if (name == kFourQueues) {
      policies.push_back(FourQueues());
      continue;
    }
    const std::pair<std::string, std::string> words =
        absl::StrSplit(name, absl::MaxSplits('+', 1));
    const absl::StatusOr<Order> order = ParseOrder(words.first);
    if (!order.ok()) {
      std::fprintf(stderr, "order '%s' %s, or %s\n", name.c_str(),
                   std::string(order.status().message()).c_str(), kFourQueues);
      return 2;
    }
    const auto rule =
        ParsePlacementRule(words.second.empty() ? "spread" : words.second);
    if (!rule.ok()) {
      std::fprintf(stderr, "placement '%s' %s\n", words.second.c_str(),
                   std::string(rule.status().message()).c_str());
      return 2;
    }
    policies.push_back({.order = *order,
                        .restart_cost = absl::Seconds(60),
                        .placement = *rule});
  }
  std::printf("microseconds of a decision, %u devices; target: p99 <= 1000\n",
              kMachines * kDevicesEach);
  std::printf("%-9s %9s %8s %8s %8s %8s %9s ", "order", "decisions", "waiting",
              "p50", "p99", "p99.9", "longest");
  for (const char* name : kNames) std::printf(" %7s", name);
  std::printf("  digest     (by kind of event: p99)\n");
  for (size_t i = 0; i < names.size(); ++i) {
    Measure(names[i], policies[i], turns);
  }
}
