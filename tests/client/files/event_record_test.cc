#include "client/files/event_record.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/client/testing/event_reader.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

const absl::Time kTime = absl::UnixEpoch() + absl::Microseconds(1500000250000);

EventRead OnlyEvent(const std::string& record) {
  const std::vector<EventRead> events = ReadEvents(record);
  EXPECT_EQ(events.size(), 1u);
  return events.empty() ? EventRead() : events.front();
}

TEST(EventRecordTest, TheFirstRecordNamesTheVersion) {
  const std::string record = VersionRecord(kTime);
  const EventRead event = OnlyEvent(record);
  EXPECT_EQ(event.version, "brain.Event:2");
  EXPECT_EQ(event.wall_time, 1500000.25);
  EXPECT_EQ(event.step, 0);
  // Every event file begins with a length of 24 and its masked checksum.
  EXPECT_EQ(record.substr(0, 12),
            std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
}

TEST(EventRecordTest, NumbersComeBackWithTheirStepAndTime) {
  const EventRead event = OnlyEvent(ScalarsRecord(
      {kTime, 300, false, {{"loss/training", 0.1}, {"held_out/auc", -2}}}));
  EXPECT_EQ(event.wall_time, 1500000.25);
  EXPECT_EQ(event.step, 300);
  EXPECT_THAT(event.values, ElementsAre(Pair("held_out/auc", -2.0f),
                                        Pair("loss/training", 0.1f)));
  EXPECT_THAT(event.plugins, ElementsAre(Pair("held_out/auc", "scalars"),
                                         Pair("loss/training", "scalars")));
}

TEST(EventRecordTest, LargeStepsAndLongTagsComeBack) {
  constexpr uint64_t kStep = (uint64_t{1} << 62) + 5;
  const std::string tag(300, 'x');
  const EventRead event =
      OnlyEvent(ScalarsRecord({kTime, kStep, false, {{tag, 1}}}));
  EXPECT_EQ(event.step, static_cast<int64_t>(kStep));
  EXPECT_EQ(event.values.at(tag), 1);
}

TEST(EventRecordTest, NumbersWithoutAFloatBecomeInfiniteOrStayNaN) {
  const double most = std::numeric_limits<double>::max();
  const EventRead event = OnlyEvent(ScalarsRecord(
      {kTime, 1, false, {{"a", most}, {"b", -most}, {"c", std::nan("")}}}));
  EXPECT_EQ(event.values.at("a"), std::numeric_limits<float>::infinity());
  EXPECT_EQ(event.values.at("b"), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(event.values.at("c")));
}

TEST(EventRecordTest, ARewindStartsASessionAtItsStep) {
  const EventRead event = OnlyEvent(RewindRecord(kTime, 40));
  EXPECT_TRUE(event.starts_session);
  EXPECT_EQ(event.step, 40);
  EXPECT_TRUE(event.values.empty());
}

}  // namespace
}  // namespace gpupool::client
