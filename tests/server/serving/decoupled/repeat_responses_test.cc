#include "server/serving/decoupled/repeat_responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "server/serving/model_registry.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

template <typename Number>
absl::Span<const std::byte> BytesOfNumbers(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const std::byte*>(numbers.data()),
          numbers.size() * sizeof(Number)};
}

class RepeatResponsesTest : public ::testing::Test {
 protected:
  absl::StatusOr<std::unique_ptr<ResponseSource>> Make(
      const std::vector<int32_t>& elements, const std::vector<uint32_t>& delays,
      uint32_t wait) {
    const std::vector<uint32_t> waits{wait};
    CheckedInputs inputs;
    inputs.rows = 1;
    inputs.bytes = {BytesOfNumbers(elements), BytesOfNumbers(delays),
                    BytesOfNumbers(waits)};
    return MakeRepeatResponses(inputs, now_, &clock_);
  }

  const absl::Time now_ = absl::UnixEpoch() + absl::Hours(1);
  RepeatClock clock_;
};

TEST_F(RepeatResponsesTest, EachElementIsDueAfterItsDelay) {
  const auto made = Make({7, -8}, {5, 10}, 0);
  ASSERT_TRUE(made.ok()) << made.status();
  ResponseSource& source = **made;
  ASSERT_EQ(source.count(), 2u);
  EXPECT_EQ(source.DueAt(0), now_ + absl::Milliseconds(5));
  EXPECT_EQ(source.DueAt(1), now_ + absl::Milliseconds(15));
  const SourcedResponse response = source.At(1);
  int32_t element = 0;
  int64_t index = 0;
  ASSERT_EQ(response.outputs[0].size(), sizeof(element));
  ASSERT_EQ(response.outputs[1].size(), sizeof(index));
  std::memcpy(&element, response.outputs[0].data(), sizeof(element));
  std::memcpy(&index, response.outputs[1].data(), sizeof(index));
  EXPECT_EQ(element, -8);
  EXPECT_EQ(index, 1);
}

TEST_F(RepeatResponsesTest, WithoutElementsThereIsNoResponse) {
  const auto made = Make({}, {}, 0);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->count(), 0u);
}

TEST_F(RepeatResponsesTest, TheNextRequestBeginsAfterTheWait) {
  ASSERT_TRUE(Make({1}, {0}, 500).ok());
  const auto next = Make({1}, {2}, 0);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ((*next)->DueAt(0), now_ + absl::Milliseconds(502));
}

TEST_F(RepeatResponsesTest, ALongDelayOrWaitIsRefused) {
  const auto delay = Make({1, 2}, {0, kLongestRepeatMillis + 1}, 0);
  EXPECT_THAT(std::string(delay.status().message()),
              HasSubstr("element 1 of input 'DELAY' is 60001 milliseconds"));
  const auto wait = Make({1}, {0}, kLongestRepeatMillis + 1);
  EXPECT_THAT(std::string(wait.status().message()),
              HasSubstr("input 'WAIT' is 60001 milliseconds"));
}

TEST_F(RepeatResponsesTest, ARequestThatWouldWaitTooLongIsRefused) {
  ASSERT_TRUE(Make({1}, {0}, kLongestRepeatMillis).ok());
  ASSERT_TRUE(Make({1}, {0}, kLongestRepeatMillis).ok());
  EXPECT_TRUE(absl::IsResourceExhausted(Make({1}, {0}, 0).status()));
}

TEST_F(RepeatResponsesTest, TheDescriptionIsThatOfAModelThatIsServed) {
  v1::ModelVersion version;
  DescribeRepeat(version.mutable_plan(), version.mutable_spec());
  const auto facts = MakeVersionFacts(version);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_FALSE(facts->batched);
  EXPECT_EQ(facts->inputs[0].DeclaredShape(), std::vector<int64_t>{-1});
  EXPECT_EQ(facts->outputs[1].DeclaredShape(), std::vector<int64_t>{1});
  EXPECT_THAT(facts->stacked, IsEmpty());
}

}  // namespace
}  // namespace gpupool::server
