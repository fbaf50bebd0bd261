// Records the profiles that a job's file asks for (training.profile). Steps
// outside the warm-up and the active ones cost one comparison.
//
// Thread-safety: the compute thread.
#pragma once

#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/job.pb.h"
#include "server/worker/engine.h"
#include "server/worker/profile/step_schedule.h"

namespace gpupool::server {

class ProfileRecorder {
 public:
  // Takes a profile, whose trace is a blob, or the reason why there is none. It
  // has no attempt and no time yet.
  using Take = absl::FunctionRef<void(absl::StatusOr<v1::RecordedProfile>)>;

  explicit ProfileRecorder(const v1::TrainingSpec& training);

  // Returns whether BeforeStep has something to do before this step, which is
  // the next one.
  bool IsDue(uint64_t step) const { return step >= next_; }
  // Returns whether a timing is under way, so that no other may begin, and
  // AfterStep must be called.
  bool recording() const { return recording_.has_value(); }

  // Begins a timing if the next step of `training` needs one. An engine that
  // refuses it is not asked again; `take` gets its error.
  void BeforeStep(engine::Training& training, Take take);
  // Counts the step that was made. `take` gets the profile after the last step
  // of a cycle. A profile with more bytes than a job may keep is an error.
  void AfterStep(engine::Training& training, Take take);
  // Ends the recording. `take` gets the profile of the steps so far, if there
  // are any.
  void End(engine::Training& training, Take take);

 private:
  struct Recording {
    uint32_t cycle = 0;
    bool kept = false;
    uint64_t first_step = 0;
    uint32_t made = 0;  // steps that are kept
  };

  const std::optional<StepSchedule> schedule_;
  uint64_t next_;  // the next step that is due; may be earlier than needed
  std::optional<Recording> recording_;
};

}  // namespace gpupool::server
