#include "engine/data/synthetic/synthetic_rows.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

v1::SyntheticData Data(v1::SyntheticData::Kind kind, double noise,
                       uint64_t seed = 1) {
  v1::SyntheticData data;
  data.set_kind(kind);
  data.set_noise(noise);
  data.set_seed(seed);
  return data;
}

SyntheticRows RowsOf(const v1::SyntheticData& data, const SyntheticForm& form) {
  const auto rows = MakeSyntheticRows(data, form);
  EXPECT_TRUE(rows.ok()) << rows.status();
  if (!rows.ok()) return {};
  EXPECT_EQ(rows->labels.size(), form.rows);
  for (const float label : rows->labels) {
    EXPECT_EQ(label, std::floor(label));
    EXPECT_GE(label, 0);
    EXPECT_LT(label, form.classes);
  }
  return *rows;
}

TEST(SyntheticRowsTest, FewerRowsAreTheFirstOfMore) {
  for (const auto kind : {v1::SyntheticData::BLOBS, v1::SyntheticData::SPIRALS,
                          v1::SyntheticData::SHAPES}) {
    const std::vector<int64_t> shape = kind == v1::SyntheticData::SHAPES
                                           ? std::vector<int64_t>{1, 16, 16}
                                           : std::vector<int64_t>{2};
    const SyntheticRows many = RowsOf(Data(kind, 0.5), {40, 3, shape});
    const SyntheticRows few = RowsOf(Data(kind, 0.5), {10, 3, shape});
    EXPECT_THAT(few.labels, ElementsAreArray(many.labels.begin(),
                                             many.labels.begin() + 10));
    const auto count = static_cast<int64_t>(few.features.size());
    EXPECT_THAT(few.features, ElementsAreArray(many.features.begin(),
                                               many.features.begin() + count));
    EXPECT_NE(RowsOf(Data(kind, 0.5, 2), {10, 3, shape}).features,
              few.features);
  }
}

TEST(SyntheticRowsTest, EveryClassHasItsShareOfTheRows) {
  const SyntheticRows rows =
      RowsOf(Data(v1::SyntheticData::BLOBS, 1), {9000, 3, {2}});
  std::vector<int> counts(3);
  for (const float label : rows.labels) ++counts[static_cast<size_t>(label)];
  // Five standard deviations of sqrt(9000 / 3 * 2 / 3).
  for (const int count : counts) EXPECT_NEAR(count, 3000, 224);
}

TEST(SyntheticRowsTest, BlobsLieAroundOneCenterForEachClass) {
  const SyntheticForm form = {600, 3, {4}};
  const SyntheticRows centers = RowsOf(Data(v1::SyntheticData::BLOBS, 0), form);
  const SyntheticRows noisy = RowsOf(Data(v1::SyntheticData::BLOBS, 2), form);
  EXPECT_EQ(centers.labels, noisy.labels);
  double squares = 0;
  std::vector<std::vector<float>> seen(3);
  for (size_t row = 0; row < form.rows; ++row) {
    const std::vector<float> point(centers.features.begin() + row * 4,
                                   centers.features.begin() + row * 4 + 4);
    std::vector<float>& center = seen[static_cast<size_t>(centers.labels[row])];
    if (center.empty()) center = point;
    EXPECT_EQ(point, center);
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_LE(std::abs(point[i]), 10);
      squares += std::pow(noisy.features[row * 4 + i] - point[i], 2);
    }
  }
  EXPECT_NE(seen[0], seen[1]);
  EXPECT_NE(seen[1], seen[2]);
  // The variance is 4; five standard errors of 4 sqrt(2 / 2400).
  EXPECT_NEAR(squares / 2400, 4, 0.58);
}

TEST(SyntheticRowsTest, SpiralsTurnOnceToTheUnitCircle) {
  const SyntheticForm form = {200, 4, {2}};
  const SyntheticRows rows = RowsOf(Data(v1::SyntheticData::SPIRALS, 0), form);
  for (size_t row = 0; row < form.rows; ++row) {
    const double x = rows.features[2 * row], y = rows.features[2 * row + 1];
    const double radius = std::hypot(x, y);
    EXPECT_LE(radius, 1 + 1e-6);
    const double angle = 6.283185307179586 * (radius + rows.labels[row] / 4);
    EXPECT_NEAR(x, radius * std::cos(angle), 1e-5);
    EXPECT_NEAR(y, radius * std::sin(angle), 1e-5);
  }
}

TEST(SyntheticRowsTest, ShapesAreWholeFiguresOfTwoNumbers) {
  const SyntheticForm form = {60, 4, {1, 16, 16}};
  const SyntheticRows rows = RowsOf(Data(v1::SyntheticData::SHAPES, 0), form);
  ASSERT_EQ(rows.features.size(), 60u * 256);
  for (size_t row = 0; row < form.rows; ++row) {
    double inside = 0;
    for (size_t i = 0; i < 256; ++i) {
      const float pixel = rows.features[row * 256 + i];
      EXPECT_TRUE(pixel == 0 || pixel == 1) << pixel;
      inside += pixel;
    }
    // A figure is 6.4 to 12.8 pixels wide. Its least part of the square is the
    // triangle's half.
    EXPECT_GT(inside, 12) << row;
    EXPECT_LT(inside, 200) << row;
  }
}

TEST(SyntheticRowsTest, FormsThatAKindDoesNotHaveAreRefused) {
  EXPECT_THAT(
      MakeSyntheticRows(Data(v1::SyntheticData::SPIRALS, 0), {5, 2, {3}})
          .status()
          .message(),
      HasSubstr("spirals have 2 features, not 3"));
  EXPECT_THAT(
      MakeSyntheticRows(Data(v1::SyntheticData::SHAPES, 0), {5, 5, {1, 16, 16}})
          .status()
          .message(),
      HasSubstr("there are 4 shapes, not 5"));
  EXPECT_FALSE(
      MakeSyntheticRows(Data(v1::SyntheticData::SHAPES, 0), {5, 4, {256}})
          .ok());
  EXPECT_FALSE(MakeSyntheticRows({}, {5, 4, {2}}).ok());
  EXPECT_FALSE(
      MakeSyntheticRows(Data(v1::SyntheticData::BLOBS, 0), {5, 0, {2}}).ok());
}

}  // namespace
}  // namespace gpupool::engine
