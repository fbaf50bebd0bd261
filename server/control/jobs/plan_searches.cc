#include "server/control/jobs/plan_searches.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/limits.pb.h"
#include "gpupool/v1/model.pb.h"
#include "scheduler/state/device_choice.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/devices/device_board.h"
#include "server/control/jobs/batch_search.h"
#include "server/control/jobs/plan_advice.h"
#include "server/control/jobs/plan_cache.h"
#include "server/control/jobs/step_times.h"
#include "server/pool/worker_port.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

constexpr size_t kMostLimits = 3;
constexpr int kMeasuredJobs = 20;  // the newest that are looked at
// Time after which no further plan is asked for.
constexpr absl::Duration kSearchTime = absl::Seconds(5);
// No batch is searched for a job whose own plan took longer.
constexpr absl::Duration kLongPlan = absl::Seconds(2);
constexpr int kMostSearches = 3;  // requests at once

// The search for the devices with one limit.
struct LimitSearch {
  v1::LargestBatch found;
  BatchSearch search;
};

// State of a request between the plans.
struct Advising {
  AdvisedPlan plan;
  Callback<v1::PlanJobResponse> callback;
  std::vector<v1::Device> devices;  // those that the job may run on
  bool pool_has_cpus = false;
  std::vector<LimitSearch> searches;  // largest limit first
  absl::Time until;
};

using AdvisingPointer = std::shared_ptr<Advising>;

// Collects the devices that a job of no bytes may run on.
void CollectDevices(const ControlContext& context, Advising& advising) {
  for (const v1::DeviceFit& fit : context.board->Fits(0, advising.plan.spec)) {
    v1::Device device = context.board->Find(fit.device());
    advising.pool_has_cpus |= device.kind() == scheduler::kCpuKind;
    if (fit.fits_ever()) advising.devices.push_back(std::move(device));
  }
}

BatchRange RangeOf(const AdvisedPlan& plan, uint64_t limit_bytes) {
  const v1::PlannedBytes& training = plan.response.plan().training();
  const uint64_t batches =
      std::max(plan.spec.training().accumulate_batches(), 1u);
  return {
      .limit_bytes = limit_bytes,
      .fixed_bytes = training.weights() + training.optimizer(),
      .quantum = std::max(plan.spec.devices(), 1u),
      .most = std::min<uint64_t>(plan.rows / batches, v1::MAX_TRAINING_ROWS)};
}

void BeginSearches(Advising& advising) {
  const AdvisedPlan& plan = advising.plan;
  // The bytes of an elastic job depend on the number of its devices.
  if (plan.rows == 0 || plan.spec.max_devices() > 0) return;
  std::map<uint64_t, v1::LargestBatch, std::greater<>> by_limit;
  for (const v1::Device& device : advising.devices) {
    by_limit[device.limit_bytes()].add_devices(device.name());
  }
  for (auto& [limit_bytes, found] : by_limit) {
    if (advising.searches.size() == kMostLimits) break;
    found.set_limit_bytes(limit_bytes);
    LimitSearch& search = advising.searches.emplace_back(
        LimitSearch{std::move(found), BatchSearch(RangeOf(plan, limit_bytes))});
    search.search.Add(plan.spec.training().batch_size(),
                      plan.response.plan().training().peak());
  }
}

void AddLargestBatches(Advising& advising) {
  for (LimitSearch& search : advising.searches) {
    v1::LargestBatch& found = search.found;
    found.set_batch_size(static_cast<uint32_t>(search.search.largest()));
    found.set_peak_bytes(search.search.largest_peak());
    found.set_too_large(
        static_cast<uint32_t>(search.search.too_large().value_or(0)));
    *advising.plan.response.add_largest_batches() = std::move(found);
  }
}

void Finish(const ControlContext& context, Advising& advising) {
  --*context.plan_searches;
  AddLargestBatches(advising);
  const AdvisedPlan& plan = advising.plan;
  v1::PlanJobResponse& response = advising.plan.response;
  std::vector<v1::StepTime> times =
      EstimateStepTimes(plan.spec.training().precision(),
                        response.plan().step_work(), advising.devices);
  TakeMeasuredTime(plan.measured, times);
  for (v1::StepTime& time : times) *response.add_step_times() = std::move(time);
  for (std::string& sentence : PlanAdvice({.spec = plan.spec,
                               .response = response,
                               .devices = advising.devices,
                               .pool_has_cpus = advising.pool_has_cpus,
                               .rows = plan.uploaded ? plan.rows : 0})) {
    response.add_advice(std::move(sentence));
  }
  advising.callback(std::move(response));
}

// Returns the next batch size to plan; nothing when all searches have ended.
std::optional<uint64_t> NextBatch(Advising& advising) {
  for (LimitSearch& search : advising.searches) {
    if (const auto batch = search.search.Next()) return batch;
  }
  return std::nullopt;
}

// Takes a plan or a refusal into all searches. Returns false when the answer
// says nothing about the batch size.
bool Take(Advising& advising, uint64_t batch,
          const absl::StatusOr<worker::v1::FromWorker>& reply) {
  std::optional<uint64_t> peak;
  if (reply.ok()) {
    peak = reply->plan().plan().training().peak();
  } else if (!absl::IsInvalidArgument(reply.status())) {
    return false;
  }
  for (LimitSearch& search : advising.searches) search.search.Add(batch, peak);
  return true;
}

void Continue(const ControlContext& context, const AdvisingPointer& advising) {
  const absl::Duration left = advising->until - context.now();
  if (left <= absl::ZeroDuration()) return Finish(context, *advising);
  const std::optional<uint64_t> batch = NextBatch(*advising);
  if (!batch.has_value()) return Finish(context, *advising);
  worker::v1::ToWorker request = advising->plan.request;
  request.mutable_plan_training()
      ->mutable_spec()
      ->mutable_training()
      ->set_batch_size(static_cast<uint32_t>(*batch));
  AskWorker(context,
            {kMetaDevice, std::move(request),
             std::min(left, context.options.plan_timeout)},
            [&context, advising, batch = *batch](
                const absl::StatusOr<worker::v1::FromWorker>& reply) {
              if (!Take(*advising, batch, reply)) {
                return Finish(context, *advising);
              }
              Continue(context, advising);
            });
}

}  // namespace

v1::Job FindMeasured(const ControlContext& context, const v1::JobSpec& spec,
                     uint64_t dataset_id, uint64_t validation_id) {
  v1::ListJobsRequest request;
  request.set_tenant(spec.tenant());
  request.set_name(spec.name());
  request.set_page_size(kMeasuredJobs);
  const auto jobs = context.store->ListJobs(request);
  if (!jobs.ok()) return v1::Job();
  const std::string key = PlanCache::KeyOf(spec, dataset_id, validation_id);
  for (const v1::Job& job : jobs->jobs()) {
    const v1::DataSpec& data = job.spec().data();
    // The key has the data by id, and jobs have it by name.
    if (job.progress().samples_per_second() > 0 &&
        data.dataset() == spec.data().dataset() &&
        data.validation() == spec.data().validation() &&
        PlanCache::KeyOf(job.spec(), dataset_id, validation_id) == key) {
      return job;
    }
  }
  return v1::Job();
}

void AddAdvice(const ControlContext& context, AdvisedPlan plan,
               Callback<v1::PlanJobResponse> callback) {
  auto advising = std::make_shared<Advising>();
  advising->plan = std::move(plan);
  advising->callback = std::move(callback);
  const absl::Time now = context.now();
  advising->until = now + kSearchTime;
  CollectDevices(context, *advising);
  const bool has_room = ++*context.plan_searches <= kMostSearches;
  if (has_room && now - advising->plan.asked <= kLongPlan) {
    BeginSearches(*advising);
  }
  Continue(context, advising);
}

}  // namespace gpupool::server
