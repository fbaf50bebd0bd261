#include "server/worker/rehearsal/training_rehearsal.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/row_windows.h"
#include "engine/base/status_macros.h"
#include "server/worker/host_room.h"
#include "server/worker/rehearsal/alarm.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using Clock = std::chrono::steady_clock;
using worker::v1::PlanReply;
using worker::v1::PlanTraining;

// Rows of an evaluation.
constexpr uint32_t kHeldOutRows = 8;

// Returns the part of the job that one device runs.
PlanTraining OnOneDevice(const PlanTraining& request) {
  PlanTraining one = request;
  v1::JobSpec& spec = *one.mutable_spec();
  const uint32_t devices =
      std::max({spec.devices(), spec.min_devices(), spec.max_devices(), 1u});
  spec.clear_devices();
  spec.clear_min_devices();
  spec.clear_max_devices();
  spec.clear_device();
  // A smaller batch leaves other rows for the last one, perhaps too few for the
  // model. Only a whole batch is tried.
  spec.mutable_data()->clear_drop_last();
  v1::TrainingSpec& training = *spec.mutable_training();
  training.set_batch_size(std::max(training.batch_size() / devices, 1u));
  return one;
}

// Returns the plan of a batch that is small enough for a step, or of one row.
absl::StatusOr<PlanReply> PlanSmallStep(Engine& engine, PlanTraining& request) {
  ASSIGN_OR_RETURN(PlanReply reply, engine.PlanTraining(request));
  const uint64_t flops = reply.plan().training_flops_per_step();
  v1::TrainingSpec& training = *request.mutable_spec()->mutable_training();
  if (flops <= kMostStepFlops || training.batch_size() == 1) return reply;
  const double share = static_cast<double>(kMostStepFlops) /
                       static_cast<double>(flops) * training.batch_size();
  training.set_batch_size(std::max(static_cast<uint32_t>(share), 1u));
  return engine.PlanTraining(request);
}

// Returns the rows that a dataset must have so that the job takes this number
// of rows from it, which may be windows.
uint64_t RowsFor(const v1::DataSpec& data, uint64_t rows) {
  if (!data.has_window()) return rows;
  return engine::RowWindowsOf(data.window()).RowsFor(rows);
}

// Replaces the data by few random rows, and the length by one that is known
// without them.
void TakeRandomRows(uint64_t total_steps, PlanTraining& request) {
  v1::TrainingSpec& training = *request.mutable_spec()->mutable_training();
  const uint64_t step_rows = uint64_t{training.batch_size()} *
                             std::max(training.accumulate_batches(), 1u);
  v1::Dataset& dataset = *request.mutable_dataset();
  dataset.clear_files();
  uint64_t rows = step_rows;
  // Windows need the fewest rows of a series if each begins a row after the
  // one before. A step is the same.
  if (request.spec().data().has_window()) {
    request.mutable_spec()->mutable_data()->mutable_window()->set_stride(1);
  }
  const v1::DataSpec& data = request.spec().data();
  if (!data.validation().empty()) {
    v1::Dataset& validation = *request.mutable_validation();
    validation.clear_files();
    validation.set_rows(
        std::min(validation.rows(), RowsFor(data, kHeldOutRows)));
  } else if (data.has_held_out()) {
    v1::HeldOut& held_out =
        *request.mutable_spec()->mutable_data()->mutable_held_out();
    held_out.Clear();
    held_out.set_last(kHeldOutRows);
    rows += kHeldOutRows;
    // Windows that share rows with held-out ones are not trained on.
    if (data.has_window()) {
      rows += engine::RowWindowsOf(data.window()).overlapping();
    }
  }
  dataset.set_rows(RowsFor(data, rows));
  training.set_steps(std::max<uint64_t>(total_steps, 1));
}

// Returns whether the run is beyond what is tried here.
bool IsTooLarge(const Engine& engine, const v1::Plan& plan) {
  const uint64_t bytes = plan.training().peak();
  const uint64_t free = FreeHostBytes();
  return plan.training_flops_per_step() > kMostStepFlops ||
         bytes > engine.info().limit_bytes() ||
         (free > 0 && bytes > RoomForCopy(free));
}

// Returns errors of memory only.
absl::Status OfMemory(absl::string_view what, const absl::Status& status) {
  if (!absl::IsResourceExhausted(status)) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " left the plan: ", status.message()));
}

absl::Status MakeStep(Engine& engine, const PlanTraining& request,
                      uint64_t limit_bytes) {
  worker::v1::StartJob start;
  start.set_job_id(kRehearsedJob);
  start.set_attempt(kRehearsedAttempt);
  *start.mutable_spec() = request.spec();
  *start.mutable_dataset() = request.dataset();
  *start.mutable_validation() = request.validation();
  start.set_limit_bytes(limit_bytes);
  const auto training = engine.StartTraining(start, nullptr);
  if (!training.ok()) return OfMemory("its start", training.status());
  RETURN_IF_ERROR(OfMemory("a step", (*training)->Step()));
  if (!(*training)->has_held_out_rows()) return absl::OkStatus();
  return OfMemory("an evaluation", (*training)->Evaluate().status());
}

}  // namespace

absl::StatusOr<PlanReply> RehearseTraining(Engine& engine,
                                           const PlanTraining& request) {
  const Clock::time_point begin = Clock::now();
  Alarm alarm(RehearsalLimit(0));
  PlanTraining small = OnOneDevice(request);
  ASSIGN_OR_RETURN(PlanReply reply, PlanSmallStep(engine, small));
  const v1::Plan& plan = reply.plan();
  const bool is_tried = !IsTooLarge(engine, plan);
  if (is_tried) {
    alarm.Set(RehearsalLimit(plan.training().peak()));
    TakeRandomRows(reply.total_steps(), small);
    RETURN_IF_ERROR(MakeStep(engine, small, plan.training().peak()));
  }
  spdlog::info("rehearsed made_step={} milliseconds={} name=\"{}\"", is_tried,
               (Clock::now() - begin) / std::chrono::milliseconds(1),
               request.spec().name());
  return reply;
}

}  // namespace gpupool::server
