#include "engine/data/array_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "tests/engine/data/files.h"

namespace gpupool::engine {
namespace {

using files::Big;
using files::Little;
using testing::ElementsAre;
using testing::HasSubstr;

absl::StatusOr<std::vector<float>> Elements(const std::string& bytes,
                                            ElementType type, bool big_endian,
                                            size_t count) {
  auto stream = PlainStream(bytes);
  std::vector<float> out(count);
  absl::Status status =
      ReadElements(*stream, {type, big_endian, {}}, absl::MakeSpan(out));
  if (!status.ok()) return status;
  return out;
}

TEST(ReadElementsTest, ConvertsEveryTypeInBothOrders) {
  EXPECT_THAT(*Elements("\xff\x01", ElementType::kUint8, false, 2),
              ElementsAre(255, 1));
  EXPECT_THAT(*Elements("\xff", ElementType::kInt8, false, 1), ElementsAre(-1));
  EXPECT_THAT(*Elements(Big(0xfffe, 2), ElementType::kInt16, true, 1),
              ElementsAre(-2));
  EXPECT_THAT(*Elements(Little(0xfffe, 2), ElementType::kUint16, false, 1),
              ElementsAre(65534));
  EXPECT_THAT(*Elements(Little(70000, 4), ElementType::kUint32, false, 1),
              ElementsAre(70000));
  EXPECT_THAT(*Elements(Big(70000, 4), ElementType::kInt32, true, 1),
              ElementsAre(70000));
  EXPECT_THAT(*Elements(Little(7, 8), ElementType::kUint64, false, 1),
              ElementsAre(7));
  EXPECT_THAT(*Elements(Little(~0ull, 8), ElementType::kInt64, false, 1),
              ElementsAre(-1));
  EXPECT_THAT(*Elements(Big(0x3fc00000, 4), ElementType::kFloat32, true, 1),
              ElementsAre(1.5));
  EXPECT_THAT(
      *Elements(Little(0xc000000000000000, 8), ElementType::kFloat64, false, 1),
      ElementsAre(-2));
  // 1.5, the smallest subnormal, the largest half.
  EXPECT_THAT(*Elements(Little(0x3e00, 2) + Little(1, 2) + Little(0xfbff, 2),
                        ElementType::kFloat16, false, 3),
              ElementsAre(1.5f, std::ldexp(1.0f, -24), -65504.0f));
}

TEST(ReadElementsTest, NamesTheElementThatIsNotFinite) {
  EXPECT_THAT(Elements(Little(0, 4) + Little(0x7f800000, 4),
                       ElementType::kFloat32, false, 2)
                  .status()
                  .message(),
              HasSubstr("element 1 is inf"));
  EXPECT_THAT(
      Elements(Little(0x7fe0000000000000, 8), ElementType::kFloat64, false, 1)
          .status()
          .message(),
      HasSubstr("not a finite float32"))
      << "too large for float32";
}

absl::StatusOr<Table> Join(std::vector<int64_t> features_shape,
                           const std::string& features,
                           std::vector<int64_t> labels_shape,
                           const std::string& labels) {
  auto features_stream = PlainStream(features);
  auto labels_stream = PlainStream(labels);
  return TableFromArrays(
      {{ElementType::kUint8, false, features_shape}, features_stream.get()},
      {{ElementType::kUint8, false, labels_shape}, labels_stream.get()}, {});
}

TEST(TableFromArraysTest, KeepsTheShapeOfARow) {
  auto table = Join({2, 1, 3}, "\1\2\3\4\5\6", {2}, "\1\3");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->rows, 2u);
  EXPECT_THAT(table->feature_shape, ElementsAre(1, 3));
  EXPECT_EQ(table->row_features, 3u);
  EXPECT_THAT(table->labels, ElementsAre(1, 3));
  EXPECT_TRUE(table->label_facts.shape.empty());
}

TEST(TableFromArraysTest, OneDimensionMeansOneFeature) {
  auto table = Join({2}, "\1\2", {2, 1}, "\3\1");
  ASSERT_TRUE(table.ok());
  EXPECT_THAT(table->feature_shape, ElementsAre(1));
}

TEST(TableFromArraysTest, ShapesMustAgree) {
  EXPECT_THAT(Join({2, 2}, "\1\2\3\4", {3}, "\1\2\3").status().message(),
              HasSubstr("[3] does not fit features of shape [2,2]"));
  EXPECT_FALSE(Join({2, 2}, "\1\2\3\4", {1, 2}, "\1\2").ok());
}

TEST(TableFromArraysTest, LabelsMayBeTensors) {
  auto table = Join({2, 1}, "\1\2", {2, 3, 1}, "\1\2\3\4\5\6");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(table->row_labels, 3u);
  EXPECT_THAT(table->labels, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(table->label_facts.shape, ElementsAre(3, 1));
  EXPECT_EQ(table->label_facts.class_count(), 7u);
}

TEST(TableFromArraysTest, OneNumberIsNoTensor) {
  auto table = Join({2, 1}, "\1\2", {2, 1, 1}, "\1\2");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(table->label_facts.shape.empty());
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
