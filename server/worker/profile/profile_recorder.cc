#include "server/worker/profile/profile_recorder.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/limits.pb.h"

namespace gpupool::server {
namespace {

std::optional<StepSchedule> ScheduleOf(const v1::TrainingSpec& training) {
  if (!training.has_profile()) return std::nullopt;
  return StepSchedule(training.profile());
}

}  // namespace

ProfileRecorder::ProfileRecorder(const v1::TrainingSpec& training)
    : schedule_(ScheduleOf(training)),
      next_(schedule_.has_value() ? 0 : StepSchedule::kNever) {}

void ProfileRecorder::BeforeStep(engine::Training& training, Take take) {
  if (!schedule_.has_value()) return;
  const uint64_t step = training.step() + 1;
  const ScheduledStep at = schedule_->At(step);
  if (!at.timed) {
    next_ = schedule_->NextTimed(step);
    return;
  }
  if (recording_.has_value() && recording_->cycle == at.cycle &&
      recording_->kept == at.kept) {
    return;
  }
  // The times of a warm-up are forgotten, so one step of them is enough.
  const absl::Status started = training.StartProfile(at.kept ? at.left : 1);
  if (!started.ok()) {
    next_ = StepSchedule::kNever;
    recording_.reset();
    return take(started);
  }
  recording_ = {.cycle = at.cycle, .kept = at.kept, .first_step = step};
}

void ProfileRecorder::AfterStep(engine::Training& training, Take take) {
  if (!recording_.has_value()) return;
  next_ = schedule_->NextTimed(training.step() + 1);
  if (!recording_->kept) return;
  ++recording_->made;
  if (schedule_->At(training.step()).left == 1) End(training, take);
}

void ProfileRecorder::End(engine::Training& training, Take take) {
  if (!recording_.has_value()) return;
  const Recording recording = *std::exchange(recording_, std::nullopt);
  if (recording.made == 0) return;
  const absl::StatusOr<engine::StoredProfile> stored = training.TakeProfile();
  if (!stored.ok()) return take(stored.status());
  if (stored->bytes > v1::MAX_RECORDED_PROFILE_BYTES) {
    return take(absl::ResourceExhaustedError(absl::StrCat(
        "it has ", stored->bytes, " bytes, and a job keeps at most ",
        static_cast<uint64_t>(v1::MAX_RECORDED_PROFILE_BYTES),
        "; set a smaller training.profile.active")));
  }
  v1::RecordedProfile profile;
  profile.set_cycle(recording.cycle);
  profile.set_first_step(recording.first_step);
  profile.set_steps(recording.made);
  profile.set_sha256(stored->sha256);
  profile.set_bytes(stored->bytes);
  take(std::move(profile));
}

}  // namespace gpupool::server
