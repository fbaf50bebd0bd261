#include "engine/memory/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

TEST(SummaryTest, FormatsBytesBelow1024OfTheUnit) {
  EXPECT_EQ(FormatBytes(0), "0 bytes");
  EXPECT_EQ(FormatBytes(1023), "1023 bytes");
  EXPECT_EQ(FormatBytes(1024), "1.00 KiB");
  EXPECT_EQ(FormatBytes(5 << 19), "2.50 MiB");
  EXPECT_EQ(FormatBytes(uint64_t{1} << 63), "8.00 EiB");
}

TEST(SummaryTest, ListsFiguresAndOwnersInLinesOfOneWidth) {
  MemoryStatistics statistics;
  statistics.limit_bytes = 1 << 20;
  statistics.reserved_bytes = 4096;
  statistics.allocated_bytes = 1024;
  statistics.requested_bytes = 1000;
  statistics.largest_free_bytes = 3072;
  statistics.owners = {{"job 7 / weights", 1024}};
  const std::string text = FormatSummary("cpu:0", statistics);
  EXPECT_THAT(text, HasSubstr("memory of cpu:0"));
  EXPECT_THAT(text, HasSubstr("job 7 / weights"));
  EXPECT_THAT(text, HasSubstr("2.3%"));
  for (size_t at = 0; at < text.size();) {
    const size_t end = text.find('\n', at);
    EXPECT_EQ(end - at, 72u) << text.substr(at, end - at);
    at = end + 1;
  }
}

}  // namespace
}  // namespace gpupool::engine
