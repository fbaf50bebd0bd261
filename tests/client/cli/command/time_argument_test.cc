#include "client/cli/command/time_argument.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::client {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1800000000);

absl::StatusOr<absl::Time> Parse(absl::string_view text) {
  return ParseTimeArgument("--since", text, kNow);
}

TEST(TimeArgumentTest, SpansAreBeforeNow) {
  EXPECT_EQ(*Parse("7d"), kNow - absl::Hours(7 * 24));
  EXPECT_EQ(*Parse("12h"), kNow - absl::Hours(12));
  EXPECT_EQ(*Parse("1h30m"), kNow - absl::Minutes(90));
}

TEST(TimeArgumentTest, TimesHaveAZoneOrAreLocal) {
  EXPECT_EQ(*Parse("2026-11-22T10:00:00Z"),
            absl::FromCivil(absl::CivilSecond(2026, 11, 22, 10, 0, 0),
                            absl::UTCTimeZone()));
  EXPECT_EQ(*Parse("2026-11-22T10:00:00+02:00"),
            absl::FromCivil(absl::CivilSecond(2026, 11, 22, 8, 0, 0),
                            absl::UTCTimeZone()));
  EXPECT_EQ(*Parse("2026-11-22"), absl::FromCivil(absl::CivilDay(2026, 11, 22),
                                                  absl::LocalTimeZone()));
}

TEST(TimeArgumentTest, AnythingElseIsRefusedByName) {
  for (const char* text : {"", "yesterday", "-7d", "2026-13-01", "5", "inf"}) {
    const auto parsed = Parse(text);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << text;
    EXPECT_THAT(std::string(parsed.status().message()),
                ::testing::HasSubstr("--since"));
  }
}

TEST(TimeArgumentTest, TimesToComeAreNowOrAfterIt) {
  const auto parse = [](absl::string_view text) {
    return ParseComingTime("--from", text, kNow);
  };
  EXPECT_EQ(*parse("now"), std::nullopt);
  EXPECT_EQ(*parse("+2h"), kNow + absl::Hours(2));
  EXPECT_EQ(*parse("+1d"), kNow + absl::Hours(24));
  EXPECT_EQ(*parse("2027-11-22T10:00:00Z"),
            absl::FromCivil(absl::CivilSecond(2027, 11, 22, 10, 0, 0),
                            absl::UTCTimeZone()));
  for (const char* text : {"", "2h", "+", "+-2h", "soon", "+inf"}) {
    const auto parsed = parse(text);
    EXPECT_TRUE(absl::IsInvalidArgument(parsed.status())) << text;
    EXPECT_THAT(std::string(parsed.status().message()),
                ::testing::HasSubstr("--from is"));
  }
}

}  // namespace
}  // namespace gpupool::client
