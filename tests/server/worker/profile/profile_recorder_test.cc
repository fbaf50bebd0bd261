#include "server/worker/profile/profile_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gpupool/v1/limits.pb.h"
#include "tests/server/worker/fake_engine.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A training whose profiles have a given size, and which notes their begins.
class NotedTraining : public testing_engine::FakeTraining {
 public:
  using FakeTraining::FakeTraining;

  absl::Status StartProfile(uint32_t steps) override {
    begins.push_back(absl::StrCat(step() + 1, ": ", steps));
    return FakeTraining::StartProfile(steps);
  }
  absl::StatusOr<engine::StoredProfile> TakeProfile() override {
    auto stored = FakeTraining::TakeProfile();
    if (stored.ok()) stored->bytes = bytes;
    return stored;
  }

  std::vector<std::string> begins;  // "STEP: STEPS"
  uint64_t bytes = 12;
};

class ProfileRecorderTest : public ::testing::Test {
 protected:
  ProfileRecorderTest() {
    v1::ProfileSchedule& schedule = *spec_.mutable_profile();
    schedule.set_wait(2);
    schedule.set_warmup(2);
    schedule.set_active(3);
    schedule.set_repeat(2);
  }
  void Steps(ProfileRecorder& recorder, int count) {
    for (int i = 0; i < count; ++i) {
      if (recorder.IsDue(training_.step() + 1)) {
        recorder.BeforeStep(training_, Taker());
      }
      ASSERT_TRUE(training_.Step().ok());
      if (recorder.recording()) recorder.AfterStep(training_, Taker());
    }
  }
  std::function<void(absl::StatusOr<v1::RecordedProfile>)> Taker() {
    return [this](absl::StatusOr<v1::RecordedProfile> recorded) {
      taken_.push_back(!recorded.ok()
                           ? std::string(recorded.status().message())
                           : absl::StrCat("cycle ", recorded->cycle(), ", ",
                                          recorded->steps(), " from ",
                                          recorded->first_step()));
    };
  }

  v1::TrainingSpec spec_;
  worker::v1::StartJob request_;
  testing_engine::FakeEngineSettings settings_;
  NotedTraining training_{request_, settings_};
  std::vector<std::string> taken_;
};

TEST_F(ProfileRecorderTest, KeepsTheActiveStepsOfEachCycle) {
  ProfileRecorder recorder(spec_);
  Steps(recorder, 20);
  // A warm-up is one timing, which the active steps replace.
  EXPECT_THAT(training_.begins, ElementsAre("3: 1", "5: 3", "10: 1", "12: 3"));
  EXPECT_THAT(taken_, ElementsAre("cycle 1, 3 from 5", "cycle 2, 3 from 12"));
  EXPECT_FALSE(recorder.IsDue(1'000'000));
}

TEST_F(ProfileRecorderTest, NothingIsDueWithoutASchedule) {
  spec_.clear_profile();
  ProfileRecorder recorder(spec_);
  EXPECT_FALSE(recorder.IsDue(1));
  Steps(recorder, 20);
  EXPECT_THAT(training_.begins, IsEmpty());
}

TEST_F(ProfileRecorderTest, NothingIsDueBetweenCycles) {
  ProfileRecorder recorder(spec_);
  Steps(recorder, 8);
  for (const uint64_t step : {9, 10}) {
    EXPECT_EQ(recorder.IsDue(step), step == 10) << step;
    EXPECT_FALSE(recorder.recording());
  }
}

TEST_F(ProfileRecorderTest, AResumedJobGoesOnWithinItsCycle) {
  request_.set_resume_manifest_sha256(testing_engine::DigestOfStep(5));
  NotedTraining resumed(request_, settings_);
  ProfileRecorder recorder(spec_);
  for (int i = 0; i < 3; ++i) {
    if (recorder.IsDue(resumed.step() + 1)) {
      recorder.BeforeStep(resumed, Taker());
    }
    ASSERT_TRUE(resumed.Step().ok());
    if (recorder.recording()) recorder.AfterStep(resumed, Taker());
  }
  EXPECT_THAT(resumed.begins, ElementsAre("6: 2"));
  EXPECT_THAT(taken_, ElementsAre("cycle 1, 2 from 6"));
}

TEST_F(ProfileRecorderTest, AnEndWithinACycleKeepsItsSteps) {
  ProfileRecorder recorder(spec_);
  Steps(recorder, 6);
  recorder.End(training_, Taker());
  EXPECT_THAT(taken_, ElementsAre("cycle 1, 2 from 5"));
  recorder.End(training_, Taker());
  EXPECT_EQ(taken_.size(), 1u);
}

TEST_F(ProfileRecorderTest, AnEndWithinTheWarmUpKeepsNothing) {
  ProfileRecorder recorder(spec_);
  Steps(recorder, 4);
  EXPECT_TRUE(recorder.recording());
  recorder.End(training_, Taker());
  EXPECT_FALSE(recorder.recording());
  EXPECT_THAT(taken_, IsEmpty());
}

TEST_F(ProfileRecorderTest, AnEngineThatRefusesIsNotAskedAgain) {
  spec_.mutable_profile()->set_active(99);
  ProfileRecorder recorder(spec_);
  Steps(recorder, 20);
  EXPECT_THAT(taken_, ElementsAre("at most 50 steps"));
  EXPECT_FALSE(recorder.recording());
}

TEST_F(ProfileRecorderTest, AProfileThatIsTooLargeIsNotKept) {
  training_.bytes = uint64_t{v1::MAX_RECORDED_PROFILE_BYTES} + 1;
  ProfileRecorder recorder(spec_);
  Steps(recorder, 10);
  EXPECT_THAT(taken_, ElementsAre(HasSubstr("training.profile.active")));
}

}  // namespace
}  // namespace gpupool::server
