#include "server/control/jobs/job_rehearsals.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/step/event.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/log.h"
#include "server/control/calls/work_queue.h"
#include "server/control/jobs/admission_parts.h"
#include "server/control/jobs/plan_cache.h"
#include "server/control/jobs/rehearsals.h"
#include "server/control/records/ledger.h"
#include "server/control/records/transaction.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Counters that name the planner (ControlOptions::planner) with which a key was
// rehearsed.
constexpr char kCounters[] = "rehearsed/";

std::string CounterOf(const std::string& key) {
  return absl::StrCat(kCounters, key);
}

}  // namespace

std::string JobRehearsals::KeyOf(const v1::JobSpec& spec, uint64_t dataset_id,
                                 uint64_t validation_id) {
  v1::JobSpec key = spec;
  v1::TrainingSpec& training = *key.mutable_training();
  training.clear_epochs();
  training.clear_steps();
  training.clear_checkpoint_every_steps();
  training.clear_report_every_steps();
  training.clear_evaluate_every_epochs();
  training.clear_evaluate_every_steps();
  training.clear_early_stopping();
  training.clear_keep_best_checkpoints();
  key.clear_publish();
  return PlanCache::KeyOf(key, dataset_id, validation_id);
}

absl::Status JobRehearsals::Recover(const Store& store) {
  ASSIGN_OR_RETURN(const auto counters, store.LoadCounters(kCounters));
  for (const auto& [name, planner] : counters) {
    if (planner == context_.options.planner) {
      done_.insert(name.substr(sizeof(kCounters) - 1));
    } else {
      useless_.insert(name);
    }
  }
  return absl::OkStatus();
}

void JobRehearsals::Resume(Transaction& transaction) {
  auto& gone = transaction.batch().delete_counters;
  gone.insert(gone.end(), useless_.begin(), useless_.end());
  useless_.clear();
  std::vector<uint64_t> untried;
  for (const auto& [id, job] : transaction.ledger().state.jobs()) {
    if (job.untried) untried.push_back(id.value());
  }
  for (const uint64_t id : untried) {
    const v1::JobSpec& spec = transaction.ledger().FindJob(id)->job.spec();
    const auto data = FindData(*context_.store, spec.data());
    const std::string key =
        data.ok() ? KeyOf(spec, data->dataset.id(), data->validation.id()) : "";
    if (!data.ok() || !Needs(key)) {
      // Without its datasets it fails where it runs.
      transaction.Apply(
          scheduler::JobRehearsed{scheduler::JobId(id), absl::OkStatus()});
      continue;
    }
    Await(transaction, key, id, PlanTraining(spec, *data).plan_training());
  }
}

bool JobRehearsals::Needs(const std::string& key) const {
  return context_.options.remembered_rehearsals > 0 && !done_.contains(key);
}

void JobRehearsals::Await(Transaction& transaction, const std::string& key,
                          uint64_t job_id,
                          const worker::v1::PlanTraining& request) {
  std::vector<uint64_t>& jobs = waiting_[key];
  jobs.push_back(job_id);
  if (jobs.size() > 1) return;
  transaction.AfterCommit([this, key, request] {
    context_.rehearsals->AddTraining(
        request, [this, key](const absl::Status& status) {
          context_.queue->Push([this, key, status](Transaction& transaction) {
            Take(transaction, key, status);
          });
        });
  });
}

void JobRehearsals::Take(Transaction& transaction, const std::string& key,
                         const absl::Status& status) {
  auto waiting = waiting_.extract(key);
  if (status.ok()) {
    Remember(transaction, key);
  } else {
    LogWarning(absl::StrCat(
        "event=job_rehearsal jobs=", waiting.mapped().size(), " first_job=",
        waiting.mapped().front(), " error=\"", status.message(), "\""));
  }
  for (const uint64_t id : waiting.mapped()) {
    transaction.Apply(scheduler::JobRehearsed{scheduler::JobId(id), status});
  }
}

void JobRehearsals::Remember(Transaction& transaction, const std::string& key) {
  if (done_.size() >= context_.options.remembered_rehearsals) {
    transaction.batch().delete_counters.push_back(CounterOf(*done_.begin()));
    done_.erase(done_.begin());
  }
  done_.insert(key);
  transaction.batch().set_counters[CounterOf(key)] = context_.options.planner;
}

}  // namespace gpupool::server
