#include "client/text/units.h"

#include <gtest/gtest.h>

#include <limits>

namespace gpupool::client {
namespace {

TEST(ParseByteSizeTest, TakesPlainNumbersAndUnits) {
  EXPECT_EQ(*ParseByteSize("4096"), 4096u);
  EXPECT_EQ(*ParseByteSize("2GiB"), 2ull << 30);
  EXPECT_EQ(*ParseByteSize("1.5 MiB"), 3ull << 19);
  EXPECT_EQ(*ParseByteSize("64k"), 64'000u);
  EXPECT_EQ(*ParseByteSize("3gb"), 3'000'000'000u);
  EXPECT_EQ(*ParseByteSize("0"), 0u);
  EXPECT_EQ(*ParseByteSize("18446744073709551615"),
            std::numeric_limits<uint64_t>::max());
}

TEST(ParseByteSizeTest, RefusesWhatIsNoSize) {
  for (const char* text : {"", "GiB", "-1", "1.5", "2XiB", "1..5k", "i", "3i",
                           "18446744073709551616", "20000000TiB", "2 G i B"}) {
    EXPECT_EQ(ParseByteSize(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(FormatBytesTest, KeepsThreeDigits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(200 << 20), "200 MiB");
  EXPECT_EQ(FormatBytes((1 << 20) - 1), "1.0 MiB") << "never 1024 KiB";
  EXPECT_EQ(FormatBytes(std::numeric_limits<uint64_t>::max()), "16.0 EiB");
}

TEST(FormatCountTest, ShortensThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(31'234), "31.2k");
  EXPECT_EQ(FormatCount(999'999), "1.0M");
  EXPECT_EQ(FormatCount(std::numeric_limits<double>::infinity()), "-");
}

TEST(GroupDigitsTest, PutsCommasBetweenThousands) {
  EXPECT_EQ(GroupDigits(0), "0");
  EXPECT_EQ(GroupDigits(999), "999");
  EXPECT_EQ(GroupDigits(1000), "1,000");
  EXPECT_EQ(GroupDigits(1234567), "1,234,567");
}

TEST(FormatSpanTest, ChoosesTheUnit) {
  EXPECT_EQ(FormatSpan(absl::Milliseconds(840)), "0.8s");
  EXPECT_EQ(FormatSpan(absl::Seconds(42)), "42s");
  EXPECT_EQ(FormatSpan(absl::Seconds(59.7)), "1m00s");
  EXPECT_EQ(FormatSpan(absl::Seconds(185)), "3m05s");
  EXPECT_EQ(FormatSpan(absl::Minutes(127)), "2h07m");
  EXPECT_EQ(FormatSpan(absl::Hours(123)), "5d03h");
  EXPECT_EQ(FormatSpan(-absl::Seconds(1)), "-");
  EXPECT_EQ(FormatSpan(absl::InfiniteDuration()), "-");
}

TEST(ParseSpanTest, TakesUnitsAndBareSeconds) {
  EXPECT_EQ(*ParseSpan("30"), absl::Seconds(30));
  EXPECT_EQ(*ParseSpan("0.5"), absl::Milliseconds(500));
  EXPECT_EQ(*ParseSpan("1h30m"), absl::Minutes(90));
  EXPECT_EQ(*ParseSpan("2d"), absl::Hours(48));
}

TEST(ParseSpanTest, RefusesZeroNegativeAndNonsense) {
  for (const char* text : {"0", "-1s", "soon", "", "nan"}) {
    EXPECT_FALSE(ParseSpan(text).ok()) << text;
  }
}

}  // namespace
}  // namespace gpupool::client
