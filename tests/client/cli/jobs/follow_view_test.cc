#include "client/cli/jobs/follow_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FollowViewTest : public ::testing::Test {
 protected:
  FollowViewTest() {
    job_.set_id(7);
    job_.mutable_spec()->set_name("digits");
    job_.mutable_create_time()->set_seconds(1000);
  }

  // Returns the output of `f`.
  template <typename F>
  std::string Printed(F f) {
    out_.str("");
    f();
    return out_.str();
  }

  static absl::Time At(double seconds) {
    return absl::FromUnixSeconds(1000) + absl::Seconds(seconds);
  }

  std::ostringstream out_;
  v1::Job job_;
  Stream terminal_{.stream = &out_, .is_terminal = true, .width = 120};
  Stream pipe_{.stream = &out_};
};

TEST_F(FollowViewTest, DrawsOneLineOverAndOverOnATerminal) {
  FollowView view(terminal_, job_);
  EXPECT_EQ(Printed([&] { view.Draw(At(3)); }), "\r\x1b[Kdigits  queued 3.0s");
  view.OnEvent(StateEvent(1, v1::RUNNING));
  view.OnEvent(ProgressEvent(2, 5, 10));
  const std::string line = Printed([&] { view.Draw(At(4)); });
  EXPECT_THAT(line, HasSubstr("50%  5/10"));
  EXPECT_THAT(line, Not(HasSubstr("\n")));
}

TEST_F(FollowViewTest, PutsNotesAboveTheLiveLine) {
  FollowView view(terminal_, job_);
  view.Draw(At(1));
  EXPECT_EQ(Printed([&] { view.OnEvent(LogEvent(1, "epoch 1 done")); }),
            "\r\x1b[Kepoch 1 done\n");
}

TEST_F(FollowViewTest, PrintsAPlainLineNowAndThenWhenPiped) {
  FollowView view(pipe_, job_);
  view.OnEvent(StateEvent(1, v1::RUNNING));
  view.OnEvent(ProgressEvent(2, 1, 10));
  EXPECT_THAT(Printed([&] { view.Draw(At(1)); }), HasSubstr("step 1/10"));
  view.OnEvent(ProgressEvent(3, 2, 10));
  EXPECT_EQ(Printed([&] { view.Draw(At(2)); }), "") << "too early";
  EXPECT_THAT(Printed([&] { view.Draw(At(6.5)); }), HasSubstr("step 2/10"));
  EXPECT_EQ(Printed([&] { view.Draw(At(20)); }), "") << "nothing new";
}

TEST_F(FollowViewTest, HasNoEscapeSequencesWhenPiped) {
  FollowView view(pipe_, job_);
  view.OnEvent(StateEvent(1, v1::BACKING_OFF));
  view.OnEvent(LogEvent(2, "lost"));
  view.Draw(At(1));
  view.Clear();
  EXPECT_THAT(out_.str(), Not(HasSubstr("\x1b")));
}

TEST_F(FollowViewTest, ShowsTheReasonThatTheServerGives) {
  FollowView view(terminal_, job_);
  job_.set_waiting_reason("waits for 2.0 GiB");
  job_.set_state(v1::QUEUED);
  view.OnJob(job_);
  EXPECT_THAT(Printed([&] { view.Draw(At(1)); }),
              HasSubstr("queued 1.0s: waits for 2.0 GiB"));
}

TEST_F(FollowViewTest, ShowsMeasuredMemoryElsePlanned) {
  job_.mutable_plan()->mutable_training()->set_peak(2 << 20);
  FollowView view(terminal_, job_);
  view.OnEvent(StateEvent(1, v1::RUNNING));
  view.OnEvent(ProgressEvent(2, 5, 10));
  EXPECT_THAT(Printed([&] { view.Draw(At(1)); }), HasSubstr("mem 2.0 MiB"));
  job_.mutable_memory()->set_measured_peak_bytes(3 << 20);
  view.OnJob(job_);
  EXPECT_THAT(Printed([&] { view.Draw(At(2)); }), HasSubstr("mem 3.0 MiB"));
}

TEST_F(FollowViewTest, RedrawsCurvesAboveTheLiveLine) {
  JobCurves curves;
  terminal_.height = 14;  // of which four are left to other output
  FollowView view(terminal_, job_, &curves);
  view.OnEvent(StateEvent(1, v1::RUNNING));
  EXPECT_THAT(Printed([&] { view.Draw(At(1)); }), Not(HasSubstr("\n")));
  curves.OnEvent(ProgressEvent(2, 5, 10));
  const std::string first = Printed([&] { view.Draw(At(2)); });
  EXPECT_EQ(std::count(first.begin(), first.end(), '\n'), 10);
  const std::string again = Printed([&] { view.Draw(At(3)); });
  std::string up;
  for (int i = 0; i < 10; ++i) up += "\x1b[1A\x1b[K";
  EXPECT_THAT(again, ::testing::StartsWith("\r\x1b[K" + up + "loss"));
  // A note comes in their place.
  EXPECT_EQ(Printed([&] { view.Note("late"); }), "\r\x1b[K" + up + "late\n");
}

TEST_F(FollowViewTest, PrintsCurvesAtTheEndWhenPiped) {
  JobCurves curves;
  curves.OnEvent(ProgressEvent(2, 5, 10));
  FollowView view(pipe_, job_, &curves);
  EXPECT_THAT(Printed([&] { view.Draw(At(1)); }), Not(HasSubstr("loss")));
  EXPECT_THAT(Printed([&] { view.PrintCurves(); }),
              HasSubstr("loss  * training 0.25\n"));
}

TEST_F(FollowViewTest, DrawsNothingAfterTheEnd) {
  FollowView view(terminal_, job_);
  view.OnEvent(StateEvent(1, v1::SUCCEEDED));
  EXPECT_EQ(Printed([&] { view.Draw(At(1)); }), "");
}

TEST_F(FollowViewTest, SummaryTellsResultAndMemory) {
  job_.set_state(v1::SUCCEEDED);
  job_.set_device("cpu:0");
  job_.mutable_start_time()->set_seconds(1000);
  job_.mutable_end_time()->set_seconds(1042);
  job_.mutable_progress()->set_step(10);
  job_.mutable_progress()->set_total_steps(10);
  job_.mutable_progress()->set_loss(0.125);
  job_.mutable_evaluation()->set_loss(0.05);
  job_.mutable_evaluation()->set_accuracy(0.9861);
  job_.mutable_evaluation()->set_rows(360);
  job_.mutable_memory()->set_measured_peak_bytes(1 << 20);
  job_.mutable_memory()->set_planned_peak_bytes(1 << 20);
  EXPECT_EQ(JobSummary(pipe_, job_, At(100)),
            "job 7 (digits) succeeded after 42s on cpu:0\n"
            "  step 10 of 10, loss 0.125\n"
            "  held out: loss 0.05, accuracy 98.61% (360 rows)\n"
            "  memory: 1.0 MiB at its peak, 1.0 MiB planned\n");
}

TEST_F(FollowViewTest, SummaryTellsALossOfZeroOnceThereIsALoss) {
  job_.set_state(v1::CANCELLED);
  job_.mutable_progress()->set_total_steps(10);
  EXPECT_EQ(JobSummary(pipe_, job_, At(1)),
            "job 7 (digits) cancelled\n"
            "  step 0 of 10\n");
  job_.mutable_progress()->set_step(1);
  job_.mutable_progress()->set_loss(0);
  EXPECT_EQ(JobSummary(pipe_, job_, At(1)),
            "job 7 (digits) cancelled\n"
            "  step 1 of 10, loss 0\n");
}

TEST_F(FollowViewTest, SummaryTellsWhyAJobFailedAndWhatToDo) {
  job_.set_state(v1::FAILED);
  job_.mutable_error()->set_message("the loss is NaN at step 12");
  job_.mutable_error()->set_hint("lower the learning rate");
  EXPECT_EQ(JobSummary(pipe_, job_, At(1)),
            "job 7 (digits) failed\n"
            "  why: the loss is NaN at step 12\n"
            "  hint: lower the learning rate\n");
}

}  // namespace
}  // namespace gpupool::client
