#include "client/cli/jobs/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;

// Returns the texts of the shown events, without their times.
std::vector<std::string> Shown(const std::vector<v1::JobEvent>& events,
                               bool all_progress = false) {
  LogEvents log(all_progress);
  std::vector<std::string> texts;
  const auto add = [&](const std::vector<v1::JobEvent>& shown) {
    for (const v1::JobEvent& event : shown) {
      texts.push_back(
          LogText(event).substr(sizeof("1970-01-01T00:00:00.000Z")));
    }
  };
  for (const v1::JobEvent& event : events) add(log.Take(event));
  add(log.End());
  return texts;
}

v1::JobEvent ProgressAt(int64_t seconds, uint64_t step) {
  v1::JobEvent event = ProgressEvent(1 + step, step, 100);
  event.mutable_time()->set_seconds(seconds);
  event.mutable_progress()->set_loss(1.5 / static_cast<double>(step));
  event.mutable_progress()->set_samples_per_second(31234);
  return event;
}

std::string Step(uint64_t step, const char* loss) {
  return absl::StrCat("STEP    ", step, " of 100: loss ", loss,
                      ", 31.2k samples/s");
}

TEST(LogLinesTest, LossesAreShownNowAndThenAndBeforeTheEnd) {
  std::vector<v1::JobEvent> events = {StateEvent(1, v1::RUNNING)};
  for (uint64_t step = 1; step <= 24; ++step) {
    events.push_back(ProgressAt(static_cast<int64_t>(step), step));
  }
  events.push_back(StateEvent(99, v1::SUCCEEDED));
  EXPECT_THAT(Shown(events),
              ElementsAre("STATE   running", Step(1, "1.5"), Step(11, "0.1364"),
                          Step(21, "0.07143"), Step(24, "0.0625"),
                          "STATE   succeeded"));
  EXPECT_EQ(Shown(events, true).size(), 26u);
}

TEST(LogLinesTest, TheLastReportOfARunningJobIsShownOnce) {
  EXPECT_THAT(Shown({ProgressAt(1, 1), ProgressAt(2, 2)}),
              ElementsAre(Step(1, "1.5"), Step(2, "0.75")));
  EXPECT_THAT(Shown({ProgressAt(1, 1), ProgressAt(2, 2), ProgressAt(11, 3)}),
              ElementsAre(Step(1, "1.5"), Step(3, "0.5")));
}

TEST(LogLinesTest, ALearningRateIsShownIfItIsTold) {
  v1::JobEvent event = ProgressAt(1, 1);
  event.mutable_progress()->set_learning_rate(0.00125);
  EXPECT_THAT(Shown({event}), ElementsAre(absl::StrCat(
                                  Step(1, "1.5"), ", learning rate 0.00125")));
  event.mutable_progress()->set_learning_rate(0);
  EXPECT_THAT(Shown({event}),
              ElementsAre(absl::StrCat(Step(1, "1.5"), ", learning rate 0")));
}

TEST(LogLinesTest, EvaluationsAndCheckpointsAreShown) {
  v1::JobEvent evaluated;
  evaluated.mutable_evaluation()->set_step(20);
  evaluated.mutable_evaluation()->set_loss(0.25);
  evaluated.mutable_evaluation()->set_rows(3);
  v1::JobEvent saved;
  saved.mutable_checkpoint()->set_step(20);
  saved.mutable_checkpoint()->set_bytes(4096);
  EXPECT_THAT(Shown({evaluated, saved}),
              ElementsAre("HELDOUT step 20: loss 0.25 (3 rows)",
                          "SAVED   step 20, 4.0 KiB"));
}

TEST(LogLinesTest, AReportIsShownBeforeTheEventsAfterIt) {
  v1::JobEvent saved;
  saved.mutable_checkpoint()->set_step(2);
  EXPECT_THAT(
      Shown({ProgressAt(1, 1), ProgressAt(2, 2), saved, ProgressAt(3, 3)}),
      ElementsAre(Step(1, "1.5"), Step(2, "0.75"), "SAVED   step 2, 0 B",
                  Step(3, "0.5")));
}

TEST(LogLinesTest, UnknownEventsAreNotShown) {
  EXPECT_THAT(Shown({v1::JobEvent(), ProgressAt(1, 1)}),
              ElementsAre(Step(1, "1.5")));
}

}  // namespace
}  // namespace gpupool::client
