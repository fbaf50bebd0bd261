#include "engine/serving/bound_numbers.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<ServedPort> Ports() {
  return {
      {.port = {"x", {}, DType::kFloat32, Shape({2}), false}},
      {.port = {"shape", {}, DType::kInt64, Shape({2}), false}, .bound = true},
      {.port = {"scale", {}, DType::kFloat32, Shape(), false}, .bound = true}};
}

TEST(BoundNumbersTest, BytesAndNumbersAreTheSame) {
  const auto bytes =
      PlannedBoundBytes({{"shape", {4, -6}}, {"scale", {0.5}}}, Ports());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ(bytes->size(), 20u);
  const auto numbers = BoundNumbers(Ports(), *bytes);
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_THAT(numbers->at("shape"), ElementsAre(4, -6));
  EXPECT_THAT(numbers->at("scale"), ElementsAre(0.5));
}

TEST(BoundNumbersTest, ALargeInputIsRefused) {
  std::vector<ServedPort> ports = Ports();
  ports[1].port.shape = Shape({131073});
  EXPECT_THAT(PlannedBoundBytes({}, ports).status().message(),
              HasSubstr("1048584 bytes; at most 1048576"));
}

TEST(BoundNumbersTest, TheKeysOfAllProgramsAreLimited) {
  EXPECT_TRUE(CheckKeptBoundBytes(0, 256).ok());
  EXPECT_TRUE(CheckKeptBoundBytes(kMaxBoundBytes, 64).ok());
  EXPECT_THAT(CheckKeptBoundBytes(kMaxBoundBytes, 65).message(),
              HasSubstr("at most 64 programs (max_programs, --max-programs)"));
}

TEST(BoundNumbersTest, OtherLengthsAreRefused) {
  EXPECT_FALSE(BoundNumbers(Ports(), "12345").ok());
  EXPECT_FALSE(BoundNumbers(Ports(), std::string(21, 'x')).ok());
}

}  // namespace
}  // namespace gpupool::engine
