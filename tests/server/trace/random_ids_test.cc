#include "server/trace/random_ids.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>

namespace gpupool::server {
namespace {

TEST(RandomIdsTest, IdsDiffer) {
  RandomIds ids(1, 2);
  std::set<std::array<uint8_t, 8>> spans;
  std::set<std::array<uint8_t, 16>> traces;
  for (int i = 0; i < 10000; ++i) {
    spans.insert(ids.NextSpan().bytes);
    traces.insert(ids.TraceEndingWith(ids.Next()).bytes);
  }
  EXPECT_EQ(spans.size(), 10000);
  EXPECT_EQ(traces.size(), 10000);
}

TEST(RandomIdsTest, OtherSeedsGiveOtherIds) {
  RandomIds first(1, 2);
  RandomIds second(3, 4);
  EXPECT_NE(first.NextSpan(), second.NextSpan());
  EXPECT_NE(first.Next(), second.Next());
}

TEST(RandomIdsTest, ATraceEndsWithTheGivenBytes) {
  RandomIds ids(1, 2);
  const TraceId id = ids.TraceEndingWith(0x0102030405060708);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(id.bytes[8 + i], i + 1);
  EXPECT_TRUE(IsSet(ids.TraceEndingWith(0)));
}

}  // namespace
}  // namespace gpupool::server
