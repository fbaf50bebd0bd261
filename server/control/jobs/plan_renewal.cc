#include "server/control/jobs/plan_renewal.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/step/event.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/log.h"
#include "server/control/calls/work_queue.h"
#include "server/control/jobs/admission.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"
#include "server/pool/worker_port.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Name of the counter that tells which planner made the stored plans.
constexpr char kPlanner[] = "plans/planner";

// Returns whether the version is served or is to be served.
bool IsWanted(const v1::ModelVersion& version) {
  return version.state() == v1::LOADING || version.state() == v1::READY;
}

}  // namespace

absl::Status PlanRenewal::Collect(Ledger& ledger) {
  const uint64_t planner = context_.options.planner;
  if (planner == 0) return absl::OkStatus();
  ASSIGN_OR_RETURN(const uint64_t stored, context_.store->GetCounter(kPlanner));
  if (stored == planner) return absl::OkStatus();
  wanted_ = true;
  // Versions that are served come first, then the jobs. Nobody waits for the
  // others.
  std::deque<Item> unwanted;
  for (const auto& [id, version] : ledger.versions()) {
    if (IsWanted(version)) {
      items_.push_back({.id = id, .awaited = true});
    } else {
      unwanted.push_back({.id = id});
    }
  }
  for (const auto& [id, row] : ledger.jobs) {
    items_.push_back({.is_job = true, .id = id, .awaited = true});
  }
  holding_ = !items_.empty();
  if (holding_) ledger.state.HoldStarts();
  items_.insert(items_.end(), unwanted.begin(), unwanted.end());
  return absl::OkStatus();
}

absl::Time PlanRenewal::HoldUntil(absl::Time now) {
  return hold_until_ = now + context_.options.plan_hold;
}

void PlanRenewal::Begin() {
  context_.queue->Push([this](Transaction& transaction) {
    if (wanted_ && !in_flight_) SendNext(transaction);
  });
}

void PlanRenewal::CheckHold(Transaction& transaction) {
  if (holding_ && transaction.now() >= hold_until_) Release(transaction);
}

void PlanRenewal::Release(Transaction& transaction) {
  if (!std::exchange(holding_, false)) return;
  transaction.Apply(scheduler::StartsHeld{false});
}

void PlanRenewal::SendNext(Transaction& transaction) {
  worker::v1::ToWorker request;
  while (!items_.empty() &&
         !MakeRequest(transaction.ledger(), items_.front(), request)) {
    items_.pop_front();
  }
  // Awaited items come first, so the first other one ends the hold.
  if (items_.empty() || !items_.front().awaited) Release(transaction);
  if (items_.empty()) return Finish(transaction);
  const Item item = items_.front();
  items_.pop_front();
  in_flight_ = true;
  transaction.AfterCommit([this, item, request = std::move(request)] {
    context_.workers->Send(
        kMetaDevice, request, context_.options.plan_timeout,
        [this, item](const absl::StatusOr<worker::v1::FromWorker>& reply) {
          context_.queue->Push([this, item, reply](Transaction& transaction) {
            Take(transaction, item, reply);
          });
        });
  });
}

bool PlanRenewal::MakeRequest(const Ledger& ledger, const Item& item,
                              worker::v1::ToWorker& request) const {
  request.Clear();
  if (item.is_job) {
    const auto row = ledger.jobs.find(item.id);
    if (row == ledger.jobs.end()) return false;
    request = PlanRequest(*context_.store, row->second.job.spec());
    return true;
  }
  const auto found = ledger.versions().find(item.id);
  if (found == ledger.versions().end()) return false;
  const v1::ModelVersion& version = found->second;
  if (version.job_id() == 0) {
    worker::v1::PlanInference& plan = *request.mutable_plan_inference();
    *plan.mutable_spec() = version.spec();
    plan.set_max_batch_size(version.serving().max_batch_size());
    plan.set_max_programs(version.serving().max_programs());
    plan.set_precision(version.serving().precision());
    return true;
  }
  // The plan depends on more than the model: on the scaling of its inputs.
  auto job = context_.store->GetJob(version.job_id());
  if (!job.ok()) return false;
  *job->mutable_spec()->mutable_publish()->mutable_serving() =
      version.serving();
  request = PlanRequest(*context_.store, job->spec());
  return true;
}

void PlanRenewal::Take(Transaction& transaction, const Item& item,
                       const absl::StatusOr<worker::v1::FromWorker>& reply) {
  in_flight_ = false;
  if (absl::IsUnavailable(reply.status())) {
    // The meta worker is away. Begin comes again with it.
    items_.push_front(item);
    return Release(transaction);
  }
  // A plan that cannot be made again is kept: the job fails where it runs, and
  // the others go on.
  if (reply.ok()) {
    Renew(transaction, item, reply->plan().plan());
  } else {
    LogWarning(absl::StrCat("event=plan_kept ",
                            item.is_job ? "job" : "version_id", "=", item.id,
                            " error=\"", reply.status().message(), "\""));
  }
  SendNext(transaction);
}

void PlanRenewal::Renew(Transaction& transaction, const Item& item,
                        const v1::Plan& plan) {
  ++renewed_;
  if (item.is_job) return transaction.RenewJobPlan(item.id, plan);
  transaction.RenewVersionPlan(item.id, plan);
}

void PlanRenewal::Finish(Transaction& transaction) {
  // The planner is noted at the end only. After a crash before that all plans
  // are renewed again.
  wanted_ = false;
  transaction.batch().set_counters[kPlanner] = context_.options.planner;
  if (renewed_ == 0) return;
  LogInfo(absl::StrCat("event=plans_renewed count=", renewed_));
}

}  // namespace gpupool::server
