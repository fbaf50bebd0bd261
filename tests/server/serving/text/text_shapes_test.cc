#include "server/serving/text/text_shapes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/text/text_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextShapesTest : public ::testing::Test {
 protected:
  static void ExpectRefused(const absl::StatusOr<TextTensor>& result,
                            const std::string& words) {
    EXPECT_TRUE(absl::IsInvalidArgument(result.status())) << result.status();
    EXPECT_THAT(std::string(result.status().message()), HasSubstr(words));
  }
  const TextTensor words_ = TextsOf({"a", "b", "c", "d"}, {2, 2});
  TextMemory memory_;
};

TEST_F(TextShapesTest, ConcatJoinsAlongAnAxis) {
  const TextTensor more = TextsOf({"x", "y"}, {2, 1});
  const auto joined = ConcatTexts({&words_, &more}, -1, memory_);
  ASSERT_TRUE(joined.ok()) << joined.status();
  EXPECT_THAT(joined->shape, ElementsAre(2, 3));
  EXPECT_THAT(joined->texts, ElementsAre("a", "b", "x", "c", "d", "y"));
  ExpectRefused(ConcatTexts({&words_, &more}, 0, memory_),
                "joins tensors of the shapes [2,2] and [2,1]");
  ExpectRefused(ConcatTexts({&words_, &more}, 2, memory_), "axis is 2");
  const TextTensor numbers = IntegersOf({1, 2}, {2, 1});
  ExpectRefused(ConcatTexts({&words_, &numbers}, 1, memory_), "types");
}

TEST_F(TextShapesTest, GatherTakesSlices) {
  const TextTensor index = IntegersOf({-1, 0}, {2});
  const auto columns = GatherTexts({&words_, &index}, 1, memory_);
  ASSERT_TRUE(columns.ok()) << columns.status();
  EXPECT_THAT(columns->shape, ElementsAre(2, 2));
  EXPECT_THAT(columns->texts, ElementsAre("b", "a", "d", "c"));
  const TextTensor one = IntegersOf({1}, {});
  EXPECT_THAT(GatherTexts({&words_, &one}, 0, memory_)->texts,
              ElementsAre("c", "d"));
  const TextTensor behind = IntegersOf({2}, {1});
  ExpectRefused(GatherTexts({&words_, &behind}, 0, memory_),
                "takes index 2 of an axis of 2");
  ExpectRefused(GatherTexts({&words_, &words_}, 0, memory_), "integers");
}

TEST_F(TextShapesTest, ReshapeKeepsTheElements) {
  const TextTensor flat = IntegersOf({-1}, {1});
  EXPECT_THAT(ReshapeTexts({&words_, &flat}, false, memory_)->shape,
              ElementsAre(4));
  const TextTensor kept = IntegersOf({0, 1, -1}, {3});
  EXPECT_THAT(ReshapeTexts({&words_, &kept}, false, memory_)->shape,
              ElementsAre(2, 1, 2));
  const TextTensor wrong = IntegersOf({3}, {1});
  ExpectRefused(ReshapeTexts({&words_, &wrong}, false, memory_),
                "the shape [3], which has other elements");
  const TextTensor huge = IntegersOf({int64_t{1} << 62, 4}, {2});
  ExpectRefused(ReshapeTexts({&words_, &huge}, false, memory_), "at most");
  const TextTensor none = IntegersOf({0, -1}, {2});
  ExpectRefused(ReshapeTexts({&words_, &none}, true, memory_), "elements");
}

TEST_F(TextShapesTest, SqueezeAndUnsqueezeMoveAxesOfSizeOne) {
  const TextTensor axes = IntegersOf({0, -1}, {2});
  const auto wide = UnsqueezeTexts({&words_, &axes}, memory_);
  ASSERT_TRUE(wide.ok()) << wide.status();
  EXPECT_THAT(wide->shape, ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(SqueezeTexts({&*wide, &axes}, memory_)->shape, ElementsAre(2, 2));
  EXPECT_THAT(SqueezeTexts({&*wide}, memory_)->shape, ElementsAre(2, 2));
  const TextTensor second = IntegersOf({1}, {1});
  ExpectRefused(SqueezeTexts({&*wide, &second}, memory_), "is not 1");
  const TextTensor twice = IntegersOf({0, 0}, {2});
  ExpectRefused(UnsqueezeTexts({&words_, &twice}, memory_), "twice");
}

TEST_F(TextShapesTest, BroadcastRepeatsAxesOfSizeOne) {
  const TextTensor row = TextsOf({"x", "y"}, {2});
  const auto pairs = Broadcast(words_, row, memory_);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_THAT(pairs->shape, ElementsAre(2, 2));
  EXPECT_THAT(pairs->left, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(pairs->right, ElementsAre(0, 1, 0, 1));
  const TextTensor three = TextsOf({"x", "y", "z"}, {3});
  EXPECT_TRUE(
      absl::IsInvalidArgument(Broadcast(words_, three, memory_).status()));
}

}  // namespace
}  // namespace gpupool::server
