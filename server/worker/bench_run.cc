#include "server/worker/bench_run.h"

#include <utility>

#include "absl/status/status.h"
#include "server/worker/engine.h"
#include "server/worker/turnstile.h"

namespace gpupool::server {

void BenchRun::Start(bool force, Done done) {
  turnstile_->Post([this, force, done = std::move(done)]() mutable {
    Begin(force, std::move(done));
  });
}

void BenchRun::Begin(bool force, Done done) {
  if (is_measuring_) {
    return done(absl::FailedPreconditionError(
        "the device is being measured already; try again in some seconds"));
  }
  if (turnstile_->has_work() && !force) {
    return done(absl::FailedPreconditionError(
        "the device trains or serves, which would slow both that and the "
        "measurements; wait until it is idle, drain it, or use --force"));
  }
  is_measuring_ = true;
  auto run = std::make_shared<Run>();
  run->done = std::move(done);
  MeasureNext(std::move(run));
}

void BenchRun::MeasureNext(std::shared_ptr<Run> run) {
  // A job or a request may have come in between.
  if (turnstile_->has_work()) run->bench.set_beside_work(true);
  const absl::StatusOr<bool> more =
      engine_->MeasureDevice(run->next++, run->bench);
  if (more.ok() && *more) {
    // Behind the tasks that wait already.
    return turnstile_->Post([this, run = std::move(run)] { MeasureNext(run); });
  }
  is_measuring_ = false;
  if (!more.ok()) return run->done(more.status());
  run->done(std::move(run->bench));
}

}  // namespace gpupool::server
