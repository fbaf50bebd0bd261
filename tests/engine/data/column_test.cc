#include "engine/data/column.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/tensor/half.h"
#include "gpupool/v1/model.pb.h"
#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Big;
using files::Little;
using ::testing::ElementsAre;
using ::testing::EndsWith;

TEST(ColumnTest, EveryTypeHasOneRowOfFacts) {
  for (int i = 0; i <= static_cast<int>(ElementType::kFloat64); ++i) {
    const auto type = static_cast<ElementType>(i);
    const absl::string_view name = ElementTypeName(type);
    SCOPED_TRACE(name);
    const uint64_t bytes = ElementBytes(type);
    EXPECT_THAT(std::string(name), EndsWith(std::to_string(8 * bytes)));
    EXPECT_EQ(
        ElementTypeOfNumpy(std::string(1, name[0]) + std::to_string(bytes)),
        type);
    // Messages have the type, or one that is as large.
    const ElementType kept = FromProto(ToProto(type));
    EXPECT_EQ(ToProto(kept), ToProto(type));
    EXPECT_EQ(IsFloating(kept), IsFloating(type));
    EXPECT_GE(ElementBytes(kept), bytes);
  }
  EXPECT_EQ(ElementTypeOfNumpy("b1"), ElementType::kUint8);
  EXPECT_EQ(ElementTypeOfNumpy("c8"), std::nullopt);
  EXPECT_EQ(FromProto(v1::BOOL), ElementType::kUint8);
  EXPECT_EQ(FromProto(v1::BFLOAT16), ElementType::kFloat32);
}

TEST(ColumnTest, GathersRowsInTheGivenOrder) {
  const Column column = ColumnOf({2}, {1, 2, 3, 4, 5, 6});
  std::vector<float> numbers(4);
  Gather(column, {2, 0}, absl::MakeSpan(numbers));
  EXPECT_THAT(numbers, ElementsAre(5, 6, 1, 2));
  std::vector<int64_t> whole(4);
  Gather(column, {1, 1}, absl::MakeSpan(whole));
  EXPECT_THAT(whole, ElementsAre(3, 4, 3, 4));
}

TEST(ColumnTest, PadsAShortBatchWithZeros) {
  const Column column = ColumnOf({}, {1, 2, -3});
  std::vector<float> numbers(3, 9);
  Gather(column, {2}, absl::MakeSpan(numbers));
  EXPECT_THAT(numbers, ElementsAre(-3, 0, 0));
  std::vector<int32_t> whole(2, 9);
  Gather(column, {1}, absl::MakeSpan(whole));
  EXPECT_THAT(whole, ElementsAre(2, 0));
}

// Returns elements 3 to 70 of the bytes.
std::vector<float> Converted(ElementType type, bool big_endian,
                             const std::string& bytes) {
  Column column = ColumnOfBytes(type, {}, bytes);
  column.big_endian = big_endian;
  std::vector<float> numbers(68);
  Convert(column, 3, absl::MakeSpan(numbers));
  return numbers;
}

TEST(ColumnTest, ConvertsEveryIntegerTypeInBothOrders) {
  struct Case {
    ElementType type;
    int64_t first;
  };
  for (const Case& test :
       {Case{ElementType::kUint8, 180}, Case{ElementType::kInt8, -100},
        Case{ElementType::kUint16, 65000}, Case{ElementType::kInt16, -300},
        Case{ElementType::kUint32, 70000}, Case{ElementType::kInt32, -70000},
        Case{ElementType::kUint64, 5}, Case{ElementType::kInt64, -9}}) {
    for (const bool big : {false, true}) {
      std::string bytes;
      const auto size = static_cast<int>(ElementBytes(test.type));
      for (int64_t i = 0; i < 73; ++i) {
        const auto value = static_cast<uint64_t>(test.first + i);
        bytes += big ? Big(value, size) : Little(value, size);
      }
      const std::vector<float> numbers = Converted(test.type, big, bytes);
      for (size_t i = 0; i < numbers.size(); ++i) {
        EXPECT_EQ(numbers[i],
                  static_cast<float>(test.first) + 3 + static_cast<float>(i))
            << ElementTypeName(test.type) << " " << i;
      }
    }
  }
}

TEST(ColumnTest, ConvertsEveryFiniteHalf) {
  std::string bytes;
  std::vector<float> wanted;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    if ((bits & 0x7c00) == 0x7c00) continue;
    bytes += Little(bits, 2);
    wanted.push_back(FloatFromFloat16(static_cast<uint16_t>(bits)));
  }
  const std::vector<float> found =
      Floats(ColumnOfBytes(ElementType::kFloat16, {}, bytes));
  ASSERT_EQ(found.size(), wanted.size());
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_EQ(found[i], wanted[i]) << i;
    ASSERT_EQ(std::signbit(found[i]), std::signbit(wanted[i])) << i;
  }
}

TEST(ColumnTest, DoublesBecomeTheNearestFloat) {
  const std::string bytes = Big(0x3fb999999999999a, 8);
  Column column = ColumnOfBytes(ElementType::kFloat64, {}, bytes);
  column.big_endian = true;
  EXPECT_THAT(Floats(column), ElementsAre(0.1f));
}

TEST(ColumnTest, LargeIntegersStayExact) {
  constexpr int64_t kLarge = (int64_t{1} << 53) + 1;
  const Column column = ColumnOfBytes(ElementType::kInt64, {},
                                      Little(kLarge, 8) + Little(~0ull, 8));
  std::vector<int64_t> whole(2);
  Gather(column, {0, 1}, absl::MakeSpan(whole));
  EXPECT_THAT(whole, ElementsAre(kLarge, -1));
  std::vector<int32_t> narrow(2);
  Gather(column, {0, 1}, absl::MakeSpan(narrow));
  EXPECT_THAT(narrow, ElementsAre(0, -1)) << "a number out of range is 0";
}

TEST(ColumnTest, FloatsOutOfRangeBecomeZeroAsIntegers) {
  const Column column = ColumnOf({}, {1e30f, -1e30f, 2.9f});
  std::vector<int64_t> whole(3);
  Gather(column, {0, 1, 2}, absl::MakeSpan(whole));
  EXPECT_THAT(whole, ElementsAre(0, 0, 2));
}

TEST(ColumnTest, FindsTheFirstNumberThatCannotBeUsed) {
  EXPECT_EQ(FirstUnusable(ColumnOf({}, {1, 2, HUGE_VALF, NAN})), 2u);
  EXPECT_EQ(FirstUnusable(ColumnOf({}, {1, 2})), 2u);
  EXPECT_EQ(FirstUnusable(ColumnOfBytes(ElementType::kFloat16, {},
                                        Little(0x7bff, 2) + Little(0x7e00, 2))),
            1u);
  EXPECT_EQ(FirstUnusable(ColumnOfBytes(ElementType::kFloat64, {},
                                        Little(0x7fe0000000000000, 8))),
            0u)
      << "too large for float32";
  EXPECT_EQ(FirstUnusable(
                ColumnOfBytes(ElementType::kUint64, {}, Little(1ull << 63, 8))),
            0u);
}

TEST(ColumnTest, FindsTheFirstNumberThatIsNotWhole) {
  const auto found = FirstNotWhole(ColumnOf({}, {3, -7, 0.5f, 9}), 8);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->position, 2u);
  EXPECT_EQ(found->number, 0.5);
  EXPECT_FALSE(FirstNotWhole(ColumnOf({}, {3, -8, 8}), 8).has_value());
  EXPECT_EQ(FirstNotWhole(ColumnOf({}, {3, -9}), 8)->position, 1u);
  EXPECT_EQ(FirstNotWhole(ColumnOf({}, {NAN}), 8)->position, 0u);
  // 1.0 and 1.5 as halves.
  const Column halves = ColumnOfBytes(ElementType::kFloat16, {},
                                      Little(0x3c00, 2) + Little(0x3e00, 2));
  EXPECT_EQ(FirstNotWhole(halves, 8)->number, 1.5);
  Column doubles =
      ColumnOfBytes(ElementType::kFloat64, {}, Big(0x3ff8000000000000, 8));
  doubles.big_endian = true;
  EXPECT_EQ(FirstNotWhole(doubles, 8)->number, 1.5);
  EXPECT_FALSE(FirstNotWhole(ColumnOfBytes(ElementType::kUint8, {}, "\xff"), 8)
                   .has_value())
      << "integers are whole";
}

// Returns the chunks of ConvertOnce, each behind its position.
template <typename T>
std::vector<std::vector<T>> ChunksOf(const Column& column) {
  std::vector<std::vector<T>> chunks;
  ConvertOnce(column, [&](uint64_t first, absl::Span<const T> chunk) {
    chunks.push_back({static_cast<T>(first)});
    chunks.back().insert(chunks.back().end(), chunk.begin(), chunk.end());
    return true;
  });
  return chunks;
}

TEST(ColumnTest, NumbersThatWindowsShareAreConvertedOnce) {
  Column column = ColumnOf({}, {1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(ChunksOf<int64_t>(column),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
  column.width = 3;
  column.step = 2;
  column.rows = 3;
  EXPECT_THAT(ChunksOf<int64_t>(column),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 4, 5),
                          ElementsAre(7, 6, 7)));
  EXPECT_THAT(ChunksOf<float>(column),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 4, 5),
                          ElementsAre(7, 6, 7)));
  // Numbers between windows are never read.
  column.step = 4;
  column.rows = 2;
  EXPECT_THAT(ChunksOf<int64_t>(column),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(3, 5, 6, 7)));
  int calls = 0;
  ConvertOnce(column, [&](uint64_t, absl::Span<const int64_t>) {
    ++calls;
    return false;
  });
  EXPECT_EQ(calls, 1);
}

TEST(ColumnTest, UnalignedElementsAreRead) {
  Column column = ColumnOfBytes(ElementType::kInt32, {},
                                "x" + Little(7, 4) + Little(8, 4) + "yyy");
  column.data += 1;
  column.rows = 2;
  EXPECT_THAT(Floats(column), ElementsAre(7, 8));
}

}  // namespace
}  // namespace gpupool::engine
