#include "server/serving/text/text_cast.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/text/text_fixture.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(TextCastTest, TextsBecomeNumbers) {
  TextMemory memory;
  EXPECT_THAT(CastText(TextsOf({"3", "-7"}, {2}), v1::INT32, memory)->integers,
              ElementsAre(3, -7));
  const auto floats =
      CastText(TextsOf({"1.5", "-2e3", "INF", "NaN"}, {4}), v1::FLOAT64, memory)
          ->floats;
  EXPECT_EQ(floats[0], 1.5);
  EXPECT_EQ(floats[1], -2000);
  EXPECT_TRUE(std::isinf(floats[2]));
  EXPECT_TRUE(std::isnan(floats[3]));
}

TEST(TextCastTest, ATextThatIsNoNumberIsNamed) {
  TextMemory memory;
  for (const char* text : {"cat", "", "1.5", "300"}) {
    const absl::Status status =
        CastText(TextsOf({text}, {1}), v1::INT8, memory).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("as INT8"));
  }
}

TEST(TextCastTest, NumbersBecomeTexts) {
  TextMemory memory;
  EXPECT_THAT(CastText(IntegersOf({-3, 12}, {2}), v1::STRING, memory)->texts,
              ElementsAre("-3", "12"));
  EXPECT_THAT(CastText(FloatsOf({0.5, std::numeric_limits<double>::infinity(),
                                 std::numeric_limits<double>::quiet_NaN()},
                                {3}),
                       v1::STRING, memory)
                  ->texts,
              ElementsAre("0.5", "INF", "NaN"));
}

TEST(TextCastTest, NumbersFitTheirType) {
  TextMemory memory;
  EXPECT_THAT(
      CastText(FloatsOf({2.9, -2.9, 300}, {3}), v1::INT8, memory)->integers,
      ElementsAre(2, -2, 44));
  EXPECT_THAT(CastText(FloatsOf({0, 0.5}, {2}), v1::BOOL, memory)->integers,
              ElementsAre(0, 1));
  EXPECT_EQ(FitFloat(0.1, v1::FLOAT32), double{0.1F});
  EXPECT_EQ(FitFloat(3.4028235e38, v1::FLOAT32),
            double{std::numeric_limits<float>::max()});
  EXPECT_TRUE(std::isinf(FitFloat(1e300, v1::FLOAT32)));
}

}  // namespace
}  // namespace gpupool::server
