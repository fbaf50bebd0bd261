#include "server/control/jobs/forecast_requests.h"

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "scheduler/explain/forecast.h"
#include "scheduler/state/state.h"
#include "scheduler/step/event.h"
#include "server/control/calls/context.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_requests.h"
#include "server/control/jobs/forecaster.h"
#include "server/control/jobs/job_requests.h"
#include "server/control/records/job_queues.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"

namespace gpupool::server {
namespace {

// Id of the planned job. No real job ever has it, and it goes last among
// equals.
constexpr uint64_t kPlannedId = std::numeric_limits<uint64_t>::max();

// Question and data for the forecaster's thread.
struct Question {
  scheduler::State state;
  scheduler::JobSubmitted job;
  absl::Time now;
  std::vector<std::string> devices;  // names of the devices
};

// Copies all that the forecast needs, in the transaction; the state must not be
// read from another thread.
Question QuestionOf(const v1::JobSpec& spec, const v1::Plan& plan,
                    Transaction& transaction) {
  v1::Job job;
  job.set_id(kPlannedId);
  *job.mutable_spec() = spec;
  *job.mutable_plan() = plan;
  job.set_held(spec.hold());
  Ledger& ledger = transaction.ledger();
  Question question{
      ledger.state.Clone(), EventOf(job, ledger), transaction.now(), {}};
  for (const auto& [id, device] : ledger.state.devices()) {
    question.devices.push_back(device.name);
  }
  return question;
}

// Runs the forecast on the forecaster's thread.
v1::StartForecast AnswerTo(Question& question) {
  const scheduler::Forecast forecast = scheduler::ForecastSubmission(
      std::move(question.state), question.job, question.now);
  v1::StartForecast proto;
  if (forecast.start) *proto.mutable_time() = ToTimestamp(*forecast.start);
  for (scheduler::DeviceId id : forecast.devices) {
    proto.add_devices(question.devices.at(id.value()));
  }
  proto.set_waits_for(forecast.waits_for);
  proto.set_why_unknown(forecast.why_unknown);
  return proto;
}

// Marks the devices whose machine has or can spare too little for the job. The
// board, which made the answers, knows no machines.
void ConsiderHost(const scheduler::State& state, const v1::JobSpec& spec,
                  v1::PlanJobResponse& response) {
  const scheduler::HostNeed host = DemandsOf(spec).host;
  if (host.none()) return;
  for (v1::DeviceFit& fit : *response.mutable_devices()) {
    const scheduler::Device* device = state.FindDevice(fit.device());
    if (device == nullptr) continue;
    const scheduler::Machine& machine = state.machines()[device->machine];
    if (machine.Holds(host) == 0) fit.set_fits_now(false);
    if (machine.EverHolds(host) == 0) fit.set_fits_ever(false);
  }
}

// Returns OK if a submission of the job could be admitted now. A plan may come
// before the data set and for a job that never fits.
absl::Status CheckPlanned(Transaction& transaction, const v1::JobSpec& spec) {
  const scheduler::State& state = transaction.ledger().state;
  RETURN_IF_ERROR(CheckQueue(state.queues(), spec));
  RETURN_IF_ERROR(CheckWantedDevice(state, spec.device()));
  return CheckStartRules(transaction, spec);
}

}  // namespace

void AnswerWithForecast(const ControlContext& context, const v1::JobSpec& spec,
                        v1::PlanJobResponse response,
                        Callback<v1::PlanJobResponse> callback) {
  Enqueue<v1::PlanJobResponse>(
      context, callback,
      [&context, spec, callback,
       response = std::move(response)](Transaction& transaction) mutable {
        const scheduler::State& state = transaction.ledger().state;
        const absl::Status checked = CheckPlanned(transaction, spec);
        if (!checked.ok()) return callback(checked);
        ConsiderHost(state, spec, response);
        const size_t jobs = state.jobs().size();
        if (jobs > Forecaster::kMostJobs) {
          response.mutable_start()->set_why_unknown(absl::StrCat(
              "there are ", jobs, " jobs; starts are predicted for at most ",
              Forecaster::kMostJobs));
          return callback(response);
        }
        auto question = std::make_shared<Question>(
            QuestionOf(spec, response.plan(), transaction));
        const bool asked = context.forecaster->Ask(
            [question, callback, response](bool stopped) mutable {
              if (stopped) return callback(NotRunning());
              *response.mutable_start() = AnswerTo(*question);
              callback(response);
            });
        if (asked) return;
        response.mutable_start()->set_why_unknown(
            "the server is making other predictions; try again");
        callback(response);
      });
}

}  // namespace gpupool::server
