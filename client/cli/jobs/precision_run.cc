#include "client/cli/jobs/precision_run.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "client/yaml/precision_words.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::client {
namespace {

// More reports would slow small models down.
constexpr uint64_t kMostReports = 100;
constexpr size_t kMostNameBytes = v1::MAX_NAME_BYTES;
// Compute capability from which GPUs have TF32.
constexpr double kSinceAmpere = 8.0;

// Replaces a warm-up that is not over after `steps` steps, which the server
// refuses. The rate of such a step is base * (step + 1) / warmup_steps.
void KeepBeginOfWarmup(uint64_t steps, v1::LearningRateSchedule& schedule) {
  const uint64_t warmup = schedule.warmup_steps();
  if (warmup < steps) return;
  schedule.Clear();
  if (warmup < 2) return;  // the first step has the base rate
  v1::LearningRateSchedule::Linear& linear = *schedule.mutable_linear();
  linear.set_start_factor(1 / static_cast<double>(warmup));
  linear.set_end_factor(1);
  linear.set_steps(warmup - 1);
}

bool HasTensorFloat32(const v1::Device& device) {
  if (device.kind() != "cuda") return false;
  double capability = 0;
  return !absl::SimpleAtod(device.gpu().compute_capability(), &capability) ||
         capability >= kSinceAmpere;
}

// Returns whether a job that asks for `wanted` may run on the device.
bool IsWanted(const std::string& wanted, const v1::Device& device,
              bool pool_has_gpus) {
  if (wanted.empty()) return (device.kind() == "cuda") == pool_has_gpus;
  return wanted == "any" || wanted == device.kind() || wanted == device.name();
}

}  // namespace

void PrecisionRun::OnEvent(const v1::JobEvent& event) {
  if (!event.has_progress() || event.progress().step() == 0) return;
  const v1::Progress& progress = event.progress();
  losses.Add(static_cast<double>(progress.step()), progress.loss());
  if (progress.samples_per_second() > 0) {
    step_seconds.push_back(rows_per_step() / progress.samples_per_second());
  }
}

double PrecisionRun::rows_per_step() const {
  const v1::TrainingSpec& training = job.spec().training();
  return static_cast<double>(training.batch_size()) *
         std::max(1u, training.accumulate_batches());
}

double PrecisionRun::median_step_seconds() const {
  if (step_seconds.empty()) return 0;
  std::vector<double> sorted = step_seconds;
  std::sort(sorted.begin(), sorted.end());
  const size_t half = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[half];
  return (sorted[half - 1] + sorted[half]) / 2;
}

std::string PrecisionRun::reason() const {
  if (!refusal.ok()) return std::string(refusal.message());
  return job.error().message();
}

v1::JobSpec ShortJob(v1::JobSpec spec, v1::Precision precision,
                     uint64_t steps) {
  const std::string suffix = absl::StrCat("-", ArithmeticWord(precision));
  const std::string name = spec.name().empty() ? "compare" : spec.name();
  spec.set_name(
      absl::StrCat(name.substr(0, kMostNameBytes - suffix.size()), suffix));
  spec.clear_publish();
  spec.clear_hold();
  spec.clear_expected_run_seconds();
  v1::TrainingSpec& training = *spec.mutable_training();
  training.set_precision(precision);
  if (precision != v1::FP16) training.clear_loss_scaling();
  training.set_steps(steps);
  training.set_report_every_steps((steps + kMostReports - 1) / kMostReports);
  training.clear_checkpoint_every_steps();
  training.clear_evaluate_every_epochs();
  training.clear_evaluate_every_steps();
  training.clear_early_stopping();
  training.clear_keep_best_checkpoints();
  training.clear_profile();
  if (training.has_schedule()) {
    KeepBeginOfWarmup(steps, *training.mutable_schedule());
  }
  return spec;
}

void RunWhere(const v1::Job& job, v1::JobSpec& spec) {
  if (job.device().empty()) return;
  const std::string& device = job.device();
  if (job.devices_size() <= 1) {
    spec.set_device(device);
    spec.clear_devices();
  } else {
    spec.set_device(device.substr(0, device.find(':')));
    spec.set_devices(static_cast<uint32_t>(job.devices_size()));
  }
  spec.clear_min_devices();
  spec.clear_max_devices();
}

std::string WhyNot(v1::Precision precision, const v1::JobSpec& spec,
                   const v1::ListDevicesResponse& pool) {
  if (precision != v1::HIGH) return "";
  const bool has_gpus =
      std::any_of(pool.devices().begin(), pool.devices().end(),
                  [](const v1::Device& d) { return d.kind() == "cuda"; });
  const v1::Device* without = nullptr;
  for (const v1::Device& device : pool.devices()) {
    if (!IsWanted(spec.device(), device, has_gpus)) continue;
    if (HasTensorFloat32(device)) return "";
    if (without == nullptr) without = &device;
  }
  if (without == nullptr) return "";
  return absl::StrCat(
      without->name(),
      without->kind() == "cuda"
          ? absl::StrCat(" (compute capability ",
                         without->gpu().compute_capability(), ")")
          : "",
      " has no TF32, so this would be float32 again");
}

}  // namespace gpupool::client
