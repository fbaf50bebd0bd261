// Checks that the simulated driver notices calls that a real one refuses.
#include "tests/engine/memory/simulated_driver.h"

#include <gtest/gtest.h>

namespace gpupool::engine {
namespace {

constexpr uint64_t kPage = 2 << 20;

class SimulatedDriverTest : public ::testing::Test {
 protected:
  void ExpectViolation(const absl::Status& status) {
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(driver_.violations().size(), ++violations_);
  }

  SimulatedDriver driver_;
  uint64_t base_ = *driver_.ReserveRange(8 * kPage);
  ChunkHandle chunk_ = *driver_.CreateChunk(kPage);
  size_t violations_ = 0;
};

TEST_F(SimulatedDriverTest, RefusesMappingsThatBreakTheRules) {
  ExpectViolation(driver_.Map({base_ + 1, kPage}, chunk_));
  ExpectViolation(driver_.Map({base_, 2 * kPage}, chunk_));
  ExpectViolation(driver_.Map({base_ + 8 * kPage, kPage}, chunk_));
  ExpectViolation(driver_.Map({base_, kPage}, chunk_ + 1));
  ASSERT_TRUE(driver_.Map({base_, kPage}, chunk_).ok());
  ExpectViolation(driver_.Map({base_ + kPage, kPage}, chunk_));
  const ChunkHandle other = *driver_.CreateChunk(kPage);
  ExpectViolation(driver_.Map({base_, kPage}, other));
}

TEST_F(SimulatedDriverTest, RefusesToTakeBackWhatIsInUseOrUnknown) {
  ASSERT_TRUE(driver_.Map({base_, kPage}, chunk_).ok());
  ExpectViolation(driver_.ReleaseChunk(chunk_));
  ExpectViolation(driver_.FreeRange({base_, 8 * kPage}));
  ExpectViolation(driver_.Unmap({base_, 2 * kPage}));
  ExpectViolation(driver_.Unmap({base_ + kPage, kPage}));
  ASSERT_TRUE(driver_.Unmap({base_, kPage}).ok());
  ASSERT_TRUE(driver_.ReleaseChunk(chunk_).ok());
  ExpectViolation(driver_.ReleaseChunk(chunk_));
  ExpectViolation(driver_.FreeRange({base_, kPage}));
  ASSERT_TRUE(driver_.FreeRange({base_, 8 * kPage}).ok());
  EXPECT_EQ(driver_.open_objects(), 0u);
}

TEST_F(SimulatedDriverTest, RefusesOddSizesAndHasACapacity) {
  ExpectViolation(driver_.CreateChunk(kPage / 2).status());
  ExpectViolation(driver_.ReserveRange(kPage + 1).status());
  driver_.SetCapacity(2 * kPage);
  EXPECT_TRUE(driver_.CreateChunk(kPage).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(driver_.CreateChunk(kPage).status()));
}

TEST_F(SimulatedDriverTest, FailsTheChosenCall) {
  driver_.FailCall(driver_.calls() + 2, true);
  EXPECT_TRUE(driver_.CreateChunk(kPage).ok());
  EXPECT_EQ(driver_.CreateChunk(kPage).status().code(),
            absl::StatusCode::kInternal);
  EXPECT_TRUE(driver_.CreateChunk(kPage).ok());
}

}  // namespace
}  // namespace gpupool::engine
