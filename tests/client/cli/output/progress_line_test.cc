#include "client/cli/output/progress_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "client/cli/output/table.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

ProgressView Running() {
  ProgressView view;
  view.name = "digits";
  view.state = v1::RUNNING;
  view.progress.set_step(450);
  view.progress.set_total_steps(900);
  view.progress.set_epoch(10);
  view.progress.set_loss(0.03125);
  view.progress.set_samples_per_second(31234);
  view.progress.set_seconds_left(4.2);
  view.memory_bytes = 12'900'000;
  return view;
}

TEST(BarTest, FillsInProportion) {
  EXPECT_EQ(Bar(0, 12), "[          ]");
  EXPECT_EQ(Bar(0.5, 12), "[====>     ]");
  EXPECT_EQ(Bar(0.99, 12), "[========> ]");
  EXPECT_EQ(Bar(1, 12), "[==========]");
}

TEST(ProgressLineTest, ShowsEverythingOnAWideTerminal) {
  EXPECT_EQ(ProgressLine(Running(), 140),
            "digits  [=============>              ]   50%  450/900  loss "
            "0.03125  ETA 4.2s  31.2k samples/s  mem 12.3 MiB");
}

TEST(ProgressLineTest, NeverGrowsBeyondTheTerminal) {
  for (int width = 20; width <= 200; ++width) {
    const std::string line = ProgressLine(Running(), width);
    EXPECT_LE(DisplayWidth(line), static_cast<size_t>(width)) << line;
  }
}

TEST(ProgressLineTest, LeavesOutMemoryThenRateThenTheBar) {
  const std::string narrow = ProgressLine(Running(), 80);
  EXPECT_THAT(narrow, Not(HasSubstr("mem ")));
  EXPECT_THAT(narrow, HasSubstr("450/900"));
  const std::string narrower = ProgressLine(Running(), 50);
  EXPECT_THAT(narrower, Not(HasSubstr("samples/s")));
  EXPECT_THAT(narrower, Not(HasSubstr("[")));
  EXPECT_THAT(narrower, StartsWith("digits   50%  450/900  loss 0.03125"));
}

TEST(ProgressLineTest, TellsWhyAJobWaits) {
  ProgressView view;
  view.name = "digits";
  view.state = v1::QUEUED;
  view.waited = absl::Seconds(12);
  EXPECT_EQ(ProgressLine(view, 100), "digits  queued 12s");
  view.waiting_reason = "needs 2.0 GiB, cpu:0 has 1.1 GiB free";
  EXPECT_EQ(ProgressLine(view, 100),
            "digits  queued 12s: needs 2.0 GiB, cpu:0 has 1.1 GiB free");
}

TEST(ProgressLineTest, ShowsNoNumbersBeforeTheFirstStep) {
  ProgressView view;
  view.name = "digits";
  view.state = v1::RUNNING;
  EXPECT_EQ(ProgressLine(view, 140), "digits  running, before its first step");
  EXPECT_EQ(PlainProgress(view), "running, before its first step");
}

TEST(ProgressLineTest, HasNoTimeLeftWhenItIsUnknown) {
  ProgressView view = Running();
  view.progress.set_seconds_left(std::numeric_limits<double>::infinity());
  EXPECT_THAT(ProgressLine(view, 140), HasSubstr("ETA -"));
}

TEST(ProgressLineTest, SurvivesATotalOfZero) {
  ProgressView view = Running();
  view.progress.set_total_steps(0);
  EXPECT_THAT(ProgressLine(view, 140), HasSubstr("0%  450/0"));
}

TEST(ProgressLineTest, TellsOfSkippedSteps) {
  ProgressView view = Running();
  view.progress.set_loss_scale(1024);
  EXPECT_THAT(PlainProgress(view), Not(HasSubstr("skipped")));
  view.progress.set_skipped_steps(3);
  EXPECT_THAT(PlainProgress(view), HasSubstr("3 skipped (loss scale 1024)"));
  EXPECT_THAT(ProgressLine(view, 200),
              HasSubstr("3 skipped (loss scale 1024)"));
}

TEST(TransferTextTest, HasABarAndBothSizes) {
  EXPECT_EQ(
      TransferText("reading s.txt", 1 << 20, 4 << 20),
      "reading s.txt  [====>" + std::string(17, ' ') + "]  1.0 MiB of 4.0 MiB");
  EXPECT_THAT(TransferText("reading s.txt", 0, 0), HasSubstr("0 B of 0 B"));
}

TEST(PlainProgressTest, SaysTheSameInWords) {
  EXPECT_EQ(PlainProgress(Running()),
            "step 450/900 (50%), epoch 10, loss 0.03125, 31.2k samples/s, ETA "
            "4.2s, memory 12.3 MiB");
}

}  // namespace
}  // namespace gpupool::client
