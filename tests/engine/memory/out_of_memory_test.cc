#include "engine/memory/out_of_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

OutOfMemoryFacts Facts() {
  OutOfMemoryFacts facts;
  facts.device = "cuda:0";
  facts.owner = "job 9 / arena";
  facts.bytes = 800;
  facts.reason = "the device's limit would be passed";
  facts.room_bytes = 200;
  facts.statistics.limit_bytes = 1000;
  facts.statistics.allocated_bytes = 800;
  facts.statistics.requested_bytes = 600;
  facts.statistics.held_block_bytes = 800;
  facts.statistics.reserved_bytes = 1000;
  facts.statistics.largest_free_bytes = 50;
  facts.statistics.figures[0].inactive_split_bytes.Add(200);
  facts.statistics.owners = {{"job 7 / weights", 500},
                             {"model a / arena", 300}};
  facts.holders = {{"job 7", 500, 0, 0}, {"model a", 300, 0, 0}};
  return facts;
}

std::string TextOf(const OutOfMemoryFacts& facts) {
  const absl::Status status = OutOfMemoryError(facts);
  EXPECT_TRUE(absl::IsResourceExhausted(status));
  return std::string(status.message());
}

TEST(OutOfMemoryTest, SaysWhatWasAskedWhatThereIsAndWhoHoldsIt) {
  const std::string text = TextOf(Facts());
  EXPECT_THAT(text, HasSubstr("cuda:0 has no 800 bytes for job 9 / arena: the "
                              "device's limit would be passed."));
  EXPECT_THAT(text, HasSubstr("Limit 1000, allocated 800, free 200 bytes; "
                              "reserved 1000, largest free block 50 bytes."));
  EXPECT_THAT(text, HasSubstr("internal 25.0 %, external 75.0 %"));
  EXPECT_THAT(text,
              HasSubstr("Held by job 7 / weights 500, model a / arena 300."));
}

TEST(OutOfMemoryTest, RemediesHaveNumbers) {
  const std::string text = TextOf(Facts());
  EXPECT_THAT(text, HasSubstr("ask for at most 200 bytes, 25 % of this"));
  EXPECT_THAT(text, HasSubstr("end or unload job 7 and model a (frees 800"));
  EXPECT_THAT(text, HasSubstr("raise the device's limit by 600 bytes"));
}

TEST(OutOfMemoryTest, EndsTheSmallestHolderThatIsEnough) {
  OutOfMemoryFacts facts = Facts();
  facts.bytes = 450;
  EXPECT_THAT(TextOf(facts), HasSubstr("end or unload model a (frees 300"));
}

TEST(OutOfMemoryTest, DoesNotAdviseToEndHoldersThatAreNotEnough) {
  OutOfMemoryFacts facts = Facts();
  facts.bytes = 5000;
  EXPECT_THAT(TextOf(facts), Not(HasSubstr("end or unload")));
}

TEST(OutOfMemoryTest, HoldersOwnLimitIsNamed) {
  OutOfMemoryFacts facts = Facts();
  facts.limited_holder = "job 9";
  EXPECT_THAT(TextOf(facts), HasSubstr("raise the limit of job 9 by 600"));
}

TEST(OutOfMemoryTest, DeviceThatIsFullBelowTheLimitHasOtherUsers) {
  OutOfMemoryFacts facts = Facts();
  facts.room_bytes = 800;
  EXPECT_THAT(TextOf(facts), HasSubstr("end other programs"));
}

TEST(OutOfMemoryTest, CountsHoldersBeyondTheFifth) {
  OutOfMemoryFacts facts = Facts();
  facts.statistics.owners.assign(7, {"job 1 / weights", 1});
  EXPECT_THAT(TextOf(facts), HasSubstr(" and 2 more."));
  facts.statistics.owners.clear();
  EXPECT_THAT(TextOf(facts), HasSubstr("Nobody holds anything."));
}

}  // namespace
}  // namespace gpupool::engine
