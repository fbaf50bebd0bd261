#include "scheduler/explain/forecast.h"

#include <algorithm>
#include <queue>
#include <tuple>
#include <utility>
#include <variant>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/step/step.h"

namespace gpupool::scheduler {
namespace {

constexpr size_t kMostNamed = 5;  // unknown ends that a text names

struct Due {
  absl::Time time;
  AttemptRef ends;  // the attempt that ends; job 0: a timer
  friend bool operator>(const Due& a, const Due& b) {
    return std::tie(a.time, a.ends) > std::tie(b.time, b.ends);
  }
};

class Lookahead {
 public:
  Lookahead(State state, absl::Time now, size_t most_events)
      : state_(std::move(state)),
        now_(std::max(now, state_.now())),
        events_left_(most_events) {}

  void Submit(const JobSubmitted& event) {
    wanted_.insert(event.id);
    Happen(event);
    const Job* job = state_.FindJob(event.id);
    if (job != nullptr && job->state == JobState::kQueued) {
      found_[event.id].waits_for = WaitingReason(state_, *job);
    }
  }
  // Asks for the start of a job that is neither live nor ended.
  void Want(JobId id) {
    const Job* job = state_.FindJob(id);
    if (job != nullptr && !IsLive(job->state) && !IsEnded(job->state)) {
      wanted_.insert(id);
    }
  }

  // Runs until all asked starts are found, nothing is due or the budget of
  // events is spent.
  absl::btree_map<JobId, Forecast> Run() {
    if (!state_.draining()) Begin();
    while (!wanted_.empty() && events_left_ > 0 && !state_.draining()) {
      const absl::Time next = NextTime();
      if (next == absl::InfiniteFuture()) break;
      now_ = std::max(now_, next);
      Advance();
    }
    for (JobId id : wanted_) found_[id].why_unknown = WhyUnknown(id);
    return std::move(found_);
  }

 private:
  // Takes in the present: live jobs, pending back-offs and cool-downs.
  void Begin() {
    std::vector<JobId> live, untried;
    for (const auto& [id, job] : state_.jobs()) {
      if (IsLive(job.state)) live.push_back(id);
      if (job.untried) untried.push_back(id);
      if (job.wake_time != absl::InfiniteFuture()) {
        due_.push({job.wake_time, {}});
      }
    }
    for (const auto& [id, device] : state_.devices()) {
      if (device.cools()) due_.push({device.cools_until, {}});
    }
    for (JobId id : live) {
      const Job& job = state_.jobs().at(id);
      if (IsStopping(job)) {
        stopping_.push_back({id, job.attempt});
      } else {
        Runs(id);
      }
    }
    if (state_.starts_held()) Happen(StartsHeld{false});
    // A rehearsal takes no time here, and goes well.
    for (JobId id : untried) Happen(JobRehearsed{id, absl::OkStatus()});
    Settle();
  }

  // Returns the time of the next event; InfiniteFuture when nothing is due.
  absl::Time NextTime() const {
    absl::Time next =
        std::min(state_.NextLimit(), state_.reservations().NextChange());
    if (!due_.empty()) next = std::min(next, due_.top().time);
    // Standings matter only while somebody waits.
    if (state_.preempts() && !state_.queue().empty()) {
      next = std::min(next, state_.NextStandingChange());
    }
    return next;
  }

  // Lets happen what is due now. Timers come before ends, so that a limit of
  // time that is due with an end takes effect first.
  void Advance() {
    absl::btree_set<AttemptRef> ends;
    while (!due_.empty() && due_.top().time <= now_) {
      if (due_.top().ends.number > 0) ends.insert(due_.top().ends);
      due_.pop();
    }
    Happen(TimerFired{});
    Settle();
    for (const AttemptRef& attempt : ends) {
      EndRanks(attempt, Outcome::kSucceeded);
      Settle();
    }
  }

  // Applies the event and queues its consequences. Each call costs one event of
  // the budget; at 0 the forecast stands still.
  void Happen(const Event& event) {
    if (events_left_ == 0) return;
    --events_left_;
    for (const Action& action : Step(state_, event, now_).actions) {
      if (const auto* start = std::get_if<StartJob>(&action)) {
        // Rank 0 stands for the attempt.
        if (start->rank == 0) started_.push_back(start->attempt);
      } else if (const auto* stop = std::get_if<StopJob>(&action)) {
        stopping_.push_back(stop->attempt);
      } else if (const auto* timer = std::get_if<SetTimer>(&action)) {
        due_.push({timer->time, {}});
      }
    }
  }

  // Lets started attempts begin and stopped ones end, at once and until nothing
  // more follows. Both lists are moved out first, since each event may add to
  // them.
  void Settle() {
    while (!started_.empty() || !stopping_.empty()) {
      for (const AttemptRef& attempt : std::exchange(started_, {})) {
        Started(attempt);
      }
      const std::vector<AttemptRef> stopping = std::exchange(stopping_, {});
      for (const AttemptRef& attempt : stopping) {
        EndRanks(attempt, Outcome::kStopped);
      }
    }
  }

  void Started(AttemptRef attempt) {
    if (!state_.IsLiveAttempt(attempt)) return;
    const Job& job = state_.jobs().at(attempt.job);
    if (wanted_.erase(attempt.job) > 0) {
      Forecast& forecast = found_[attempt.job];
      forecast.start = now_;
      for (const Rank& rank : job.ranks) {
        forecast.devices.push_back(rank.device);
      }
    }
    Runs(attempt.job);
  }

  // Begins the attempt and notes its end, if its run time is known.
  void Runs(JobId id) {
    const Job& job = state_.jobs().at(id);
    const AttemptRef attempt{id, job.attempt};
    if (job.state == JobState::kStarting) {
      Happen(AttemptStarted{job.ranks.front().device, attempt, std::nullopt});
    }
    if (!job.expected_run) {
      unknown_.insert(attempt);
      return;
    }
    const absl::Duration left = *job.expected_run - job.Attained(now_);
    due_.push({now_ + std::max(left, absl::ZeroDuration()), attempt});
  }

  void EndRanks(AttemptRef attempt, Outcome outcome) {
    if (!state_.IsLiveAttempt(attempt)) return;
    // A copy, since each event changes the job's ranks.
    const Ranks ranks = state_.jobs().at(attempt.job).ranks;
    for (const Rank& rank : ranks) {
      if (rank.end && !rank.saves()) continue;
      Happen(AttemptEnded{rank.device, attempt, outcome, ""});
    }
    const Job* job = state_.FindJob(attempt.job);
    if (job != nullptr && IsEnded(job->state)) state_.ForgetJob(attempt.job);
  }

  std::string WhyUnknown(JobId id) const {
    if (events_left_ == 0) return "it lies too far ahead";
    const Job* job = state_.FindJob(id);
    if (job == nullptr || IsEnded(job->state)) {
      return "it comes to a limit of its time before";
    }
    if (job->state != JobState::kQueued) return "it backs off";
    std::vector<std::string> names;
    for (const AttemptRef& attempt : unknown_) {
      if (!state_.IsLiveAttempt(attempt) || !IsInTheWay(attempt.job, *job)) {
        continue;
      }
      names.push_back(absl::StrCat(attempt.job.value()));
    }
    if (names.empty() || !job->MayStart()) return WaitingReason(state_, *job);
    const size_t all = names.size();
    if (all > kMostNamed) names.resize(kMostNamed);
    return absl::StrCat("nobody knows how long ", all == 1 ? "job " : "jobs ",
                        absl::StrJoin(names, ", "),
                        all > kMostNamed ? ", ... run" : " will run");
  }

  // Returns whether the running job holds a device that the other one may use.
  bool IsInTheWay(JobId running, const Job& job) const {
    for (const Rank& rank : state_.jobs().at(running).ranks) {
      if (DeviceMatches(state_.devices().at(rank.device),
                        NeedOf(state_, job))) {
        return true;
      }
    }
    return false;
  }

  State state_;
  absl::Time now_;
  size_t events_left_;
  std::priority_queue<Due, std::vector<Due>, std::greater<Due>> due_;
  std::vector<AttemptRef> started_;
  std::vector<AttemptRef> stopping_;
  absl::btree_set<AttemptRef> unknown_;  // attempts of unknown end
  absl::btree_set<JobId> wanted_;
  absl::btree_map<JobId, Forecast> found_;
};

}  // namespace

absl::btree_map<JobId, Forecast> ForecastStarts(State state,
                                                absl::Span<const JobId> jobs,
                                                absl::Time now,
                                                size_t most_events) {
  Lookahead lookahead(std::move(state), now, most_events);
  for (JobId id : jobs) lookahead.Want(id);
  return lookahead.Run();
}

Forecast ForecastSubmission(State state, const JobSubmitted& job,
                            absl::Time now, size_t most_events) {
  Lookahead lookahead(std::move(state), now, most_events);
  lookahead.Submit(job);
  absl::btree_map<JobId, Forecast> found = lookahead.Run();
  return std::move(found[job.id]);
}

}  // namespace gpupool::scheduler
