#include "engine/data/array_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/engine/data/columns.h"
#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Big;
using files::Little;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Table> Join(std::vector<int64_t> features_shape,
                           const std::string& features,
                           std::vector<int64_t> labels_shape,
                           const std::string& labels) {
  auto features_stream = PlainStream(features);
  auto labels_stream = PlainStream(labels);
  return TableFromArrays(
      {{.header = {ElementType::kUint8, false, features_shape},
        .stream = features_stream.get(),
        .title = "features"}},
      {{.header = {ElementType::kUint8, false, labels_shape},
        .stream = labels_stream.get(),
        .title = "labels"}},
      {});
}

TEST(TableFromArraysTest, KeepsTheShapeOfARow) {
  auto table = Join({2, 1, 3}, "\1\2\3\4\5\6", {2}, "\1\3");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(table->features().shape, ElementsAre(1, 3));
  EXPECT_EQ(table->features().width, 3u);
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1, 3));
  EXPECT_TRUE(table->labels().facts.shape.empty());
}

// Returns a table of one array for both, of four bytes a row.
absl::StatusOr<Table> Single(ElementType type, bool big_endian,
                             const std::string& bytes) {
  const auto rows = static_cast<int64_t>(bytes.size() / ElementBytes(type));
  auto features = PlainStream(bytes), labels = PlainStream(bytes);
  const ArrayHeader header = {type, big_endian, {rows}};
  return TableFromArrays(
      {{.header = header, .stream = features.get(), .title = "features"}},
      {{.header = header, .stream = labels.get(), .title = "labels"}}, {});
}

TEST(TableFromArraysTest, KeepsTheElementTypeInMemory) {
  auto table = Join({2, 3}, "\1\2\3\4\5\6", {2}, "\1\3");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->features().type, ElementType::kUint8);
  EXPECT_EQ(table->host_bytes(), 8u) << "one byte an element";
}

TEST(TableFromArraysTest, DoublesAreFloatsInMemory) {
  for (const bool big : {false, true}) {
    const uint64_t bits = 0x3fb999999999999a;  // 0.1
    auto table = Single(ElementType::kFloat64, big,
                        big ? Big(bits, 8) : Little(bits, 8));
    ASSERT_TRUE(table.ok()) << table.status();
    EXPECT_EQ(table->features().type, ElementType::kFloat32);
    EXPECT_EQ(table->features().stored, ElementType::kFloat64);
    EXPECT_EQ(table->host_bytes(), 8u) << "features and labels";
    EXPECT_THAT(Floats(table->features()), ElementsAre(0.1f));
  }
}

TEST(TableFromArraysTest, BigEndianElementsAreReversedInMemory) {
  auto table = Single(ElementType::kInt16, true, Big(0xfffe, 2) + Big(300, 2));
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_FALSE(table->features().big_endian);
  EXPECT_THAT(Floats(table->features()), ElementsAre(-2, 300));
  EXPECT_EQ(table->labels().facts.maximum, 300);
}

TEST(TableFromArraysTest, NamesTheElementThatIsNotFinite) {
  EXPECT_THAT(
      Single(ElementType::kFloat32, false, Little(0, 4) + Little(0x7f800000, 4))
          .status()
          .message(),
      HasSubstr("features: element 1 is inf"));
  EXPECT_THAT(
      Single(ElementType::kFloat64, false, Little(0x7fe0000000000000, 8))
          .status()
          .message(),
      HasSubstr("not a finite float32"))
      << "too large for float32";
  EXPECT_THAT(
      Single(ElementType::kFloat16, true, Big(0x7c00, 2)).status().message(),
      HasSubstr("element 0 is inf or nan"));
  EXPECT_THAT(
      Single(ElementType::kUint64, false, Little(~0ull, 8)).status().message(),
      HasSubstr("element 0 is 2^63 or more"));
}

TEST(TableFromArraysTest, OneDimensionMeansOneFeature) {
  auto table = Join({2}, "\1\2", {2, 1}, "\3\1");
  ASSERT_TRUE(table.ok());
  EXPECT_THAT(table->features().shape, ElementsAre(1));
}

TEST(TableFromArraysTest, ShapesMustAgree) {
  EXPECT_THAT(Join({2, 2}, "\1\2\3\4", {3}, "\1\2\3").status().message(),
              HasSubstr("[3] does not fit features of shape [2,2]"));
  EXPECT_FALSE(Join({2, 2}, "\1\2\3\4", {1, 2}, "\1\2").ok());
}

TEST(TableFromArraysTest, LabelsMayBeTensors) {
  auto table = Join({2, 1}, "\1\2", {2, 3, 1}, "\1\2\3\4\5\6");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->labels().width, 3u);
  EXPECT_THAT(Floats(table->labels()), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(table->labels().facts.shape, ElementsAre(3, 1));
  EXPECT_EQ(table->labels().facts.class_count(), 7u);
}

TEST(TableFromArraysTest, OneNumberIsNoTensor) {
  auto table = Join({2, 1}, "\1\2", {2, 1, 1}, "\1\2");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->labels().facts.shape.empty());
}

TEST(TableFromArraysTest, BytesMustBeAllThereAndNoMore) {
  EXPECT_THAT(Join({2, 2}, "\1\2\3", {2}, "\1\2").status().message(),
              HasSubstr("features: ends after 3 of 4"));
  EXPECT_THAT(Join({2, 2}, "\1\2\3\4", {2}, "\1\2\3").status().message(),
              HasSubstr("labels: has more bytes"));
}

TEST(TableFromArraysTest, HugeShapesAreRefusedBeforeAnythingIsAllocated) {
  constexpr int64_t kRows = int64_t{1} << 32;
  EXPECT_EQ(Join({kRows, 1 << 20}, "", {kRows}, "").status().code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(Join({kRows, 1}, "", {kRows, 1 << 20}, "").status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace gpupool::engine
