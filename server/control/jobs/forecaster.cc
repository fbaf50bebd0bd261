#include "server/control/jobs/forecaster.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/time/clock.h"
#include "scheduler/explain/forecast.h"
#include "scheduler/state/state.h"
#include "server/control/calls/work_queue.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"

namespace gpupool::server {
namespace {

using scheduler::JobId;
using Forecasts = absl::btree_map<JobId, scheduler::Forecast>;

constexpr int kShareOfTime = 20;

// Stores the forecasts, made at `now`, of jobs that have not been started
// meanwhile. A job that would start at once has no prediction: it waits for
// its rehearsal only.
void StorePredictions(const Forecasts& forecasts, absl::Time now,
                      Transaction& transaction) {
  for (const auto& [id, forecast] : forecasts) {
    JobRow* row = transaction.ledger().FindJob(id.value());
    if (row == nullptr || row->job.attempt() > 0) continue;
    if (!forecast.start || *forecast.start <= now) continue;
    *row->job.mutable_predicted_start_time() = ToTimestamp(*forecast.start);
    transaction.TouchJob(id.value());
  }
}

}  // namespace

Forecaster::~Forecaster() { Stop(); }

void Forecaster::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Forecaster::Stop() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  if (thread_.joinable()) thread_.join();
  std::deque<Look> left;
  {
    absl::MutexLock lock(&mutex_);
    left.swap(looks_);
  }
  // Without the lock, since a look answers callers.
  for (const Look& look : left) look(true);
}

bool Forecaster::Ask(Look look) {
  absl::MutexLock lock(&mutex_);
  if (stopping_ || looks_.size() >= kMostWaiting) return false;
  looks_.push_back(std::move(look));
  return true;
}

void Forecaster::Run() {
  while (true) {
    Look look;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(this, &Forecaster::HasNews));
      if (stopping_) return;
      look = std::move(looks_.front());
      looks_.pop_front();
    }
    look(false);
  }
}

void Forecaster::Predict(const Transaction& transaction,
                         const scheduler::State& state, WorkQueue* queue) {
  for (JobId id : transaction.submitted_jobs()) {
    const scheduler::Job* job = state.FindJob(id);
    if (job == nullptr || job->attempt > 0) continue;
    if (pending_.size() < kMostPending) pending_.push_back(id);
  }
  if (pending_.empty()) return;
  const absl::Time begin = absl::Now();
  {
    absl::MutexLock lock(&mutex_);
    if (begin < next_ || !looks_.empty()) return;
    next_ = absl::InfiniteFuture();  // until this one is done
  }
  const std::vector<JobId> jobs = std::exchange(pending_, {});
  if (state.jobs().size() > kMostJobs) {
    absl::MutexLock lock(&mutex_);
    next_ = begin + absl::Seconds(1);
    return;
  }
  auto copy = std::make_shared<scheduler::State>(state.Clone());
  const absl::Duration copied = absl::Now() - begin;
  const bool asked = Ask([this, copy, jobs, copied, queue,
                          now = std::max(transaction.now(), state.now())](
                             bool stopped) {
    if (stopped) return;
    const absl::Time looked = absl::Now();
    Forecasts forecasts =
        scheduler::ForecastStarts(std::move(*copy), jobs, now);
    // A full queue refuses it: a prediction is optional.
    queue->TryPush([forecasts = std::move(forecasts), now](Transaction& turn) {
      StorePredictions(forecasts, now, turn);
    });
    absl::MutexLock lock(&mutex_);
    const absl::Time done = absl::Now();
    // The pause is proportional to the cost, copy included, so that
    // forecasts take a twentieth of the time whatever the number of jobs.
    next_ = done + (done - looked + copied) * kShareOfTime;
  });
  if (!asked) {
    absl::MutexLock lock(&mutex_);
    next_ = begin;
  }
}

}  // namespace gpupool::server
