#include "server/serving/decoupled/loop_responses.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Shapes = std::vector<std::vector<int64_t>>;

absl::Span<const std::byte> BytesOfFloats(const std::vector<float>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(float)};
}

std::vector<float> FloatsOf(absl::Span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

class LoopResponsesTest : public ::testing::Test {
 protected:
  // Makes responses of outputs that are floats.
  absl::StatusOr<std::unique_ptr<ResponseSource>> Make(
      const std::vector<std::vector<float>>& outputs, const Shapes& shapes,
      const std::vector<size_t>& stacked) {
    std::vector<absl::Span<const std::byte>> bytes;
    for (const auto& output : outputs) bytes.push_back(BytesOfFloats(output));
    return MakeLoopResponses({.outputs = bytes, .shapes = shapes}, stacked);
  }
};

TEST_F(LoopResponsesTest, EachRowIsAResponseAndTheOthersComeWithTheLast) {
  const auto made = Make({{9}, {1, 2, 3, 4}}, {{}, {2, 2}}, {1});
  ASSERT_TRUE(made.ok()) << made.status();
  ResponseSource& source = **made;
  ASSERT_EQ(source.count(), 2u);
  const SourcedResponse first = source.At(0);
  EXPECT_THAT(first.has_output, ElementsAre(false, true));
  EXPECT_THAT(first.shapes[1], ElementsAre(1, 2));
  EXPECT_THAT(FloatsOf(first.outputs[1]), ElementsAre(1, 2));
  const SourcedResponse last = source.At(1);
  EXPECT_THAT(last.has_output, ElementsAre(true, true));
  EXPECT_THAT(FloatsOf(last.outputs[0]), ElementsAre(9));
  EXPECT_THAT(FloatsOf(last.outputs[1]), ElementsAre(3, 4));
}

TEST_F(LoopResponsesTest, WithoutIterationsOtherOutputsComeAlone) {
  const auto made = Make({{9}, {}}, {{}, {0, 2}}, {1});
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_EQ((*made)->count(), 1u);
  EXPECT_THAT((*made)->At(0).has_output, ElementsAre(true, false));
}

TEST_F(LoopResponsesTest, WithoutIterationsAndOtherOutputsThereIsNoResponse) {
  const auto made = Make({{}}, {{0}}, {0});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ((*made)->count(), 0u);
}

TEST_F(LoopResponsesTest, AWrongAnswerOfTheWorkerIsAnError) {
  for (const auto& made :
       {Make({{1}, {1, 2}}, {{1}, {2}}, {0, 1}), Make({{1, 2, 3}}, {{5}}, {0}),
        Make({{1}}, {{}}, {0}), Make({{1}}, {{1}}, {3}),
        Make({{1}}, {{0}}, {0})}) {
    EXPECT_TRUE(absl::IsInternal(made.status()));
    EXPECT_THAT(std::string(made.status().message()), HasSubstr("is wrong"));
  }
}

}  // namespace
}  // namespace gpupool::server
