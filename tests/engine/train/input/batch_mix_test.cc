#include "engine/train/input/batch_mix.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace gpupool::engine {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::TrainingSpec MixOf(const std::string& mix) {
  v1::TrainingSpec training;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      "seed: 3 mix { " + mix + " }", &training));
  return training;
}

MixOptions Options(const std::string& mix, const ImageShape& image = {}) {
  const v1::TrainingSpec training = MixOf(mix);
  return {.mix = training.mix(), .seed = training.seed(), .image = image};
}

TEST(BatchMixTest, NumbersAreChecked) {
  EXPECT_TRUE(CheckMix(v1::TrainingSpec()).ok());
  for (const char* mix :
       {"mixup_alpha: 0.2", "cutmix_alpha: 1000", "mixup_alpha: 1e-300",
        "mixup_alpha: 1 cutmix_alpha: 1 switch_probability: 0",
        "mixup_alpha: 1 probability: 0"}) {
    EXPECT_TRUE(CheckMix(MixOf(mix)).ok()) << mix;
  }
  const std::pair<const char*, const char*> cases[] = {
      {"", "training.mix has neither mixup_alpha nor cutmix_alpha"},
      {"mixup_alpha: 0", "training.mix.mixup_alpha is 0; it must be above 0"},
      {"cutmix_alpha: 1001",
       "training.mix.cutmix_alpha is 1001; it must be above 0 and at most "
       "1000"},
      {"mixup_alpha: nan", "training.mix.mixup_alpha is nan"},
      {"mixup_alpha: 1 probability: 1.5",
       "training.mix.probability is 1.5; it must be from 0 to 1"},
      {"mixup_alpha: 1 cutmix_alpha: 1 switch_probability: -1",
       "training.mix.switch_probability is -1"},
      {"cutmix_alpha: 1 switch_probability: 1",
       "chooses between mixup and cutmix, but only cutmix_alpha is set"},
  };
  for (const auto& [mix, error] : cases) {
    const absl::Status status = CheckMix(MixOf(mix));
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << mix;
    EXPECT_THAT(std::string(status.message()), HasSubstr(error));
  }
}

ModelPort PortOf(const std::string& name, DType dtype, const Shape& shape) {
  return {.name = name, .dtype = dtype, .shape = shape};
}

std::string OptionsErrorOf(const std::string& mix,
                           const std::vector<ModelPort>& inputs) {
  return std::string(MixOptionsOf(MixOf(mix), inputs).status().message());
}

TEST(BatchMixTest, OnlyFloatsAreMixed) {
  const ModelPort x = PortOf("x", DType::kFloat32, {8, 5});
  const ModelPort ids = PortOf("ids", DType::kInt64, {8, 5});
  EXPECT_EQ(OptionsErrorOf("mixup_alpha: 1", {x, x}), "");
  EXPECT_EQ(OptionsErrorOf("mixup_alpha: 1", {x, ids}),
            "training.mix mixes the numbers of rows, but the model's input "
            "'ids' is int64; mix only models whose inputs are float32");
  const auto none = MixOptionsOf(v1::TrainingSpec(), {ids});
  ASSERT_TRUE(none.ok()) << none.status();
  EXPECT_FALSE(none->has_value());
}

TEST(BatchMixTest, CutmixIsForOneImage) {
  const ModelPort image = PortOf("x", DType::kFloat32, {8, 3, 4, 5});
  auto options = MixOptionsOf(MixOf("cutmix_alpha: 1"), {image});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ((*options)->image, (ImageShape{3, 4, 5}));
  EXPECT_EQ((*options)->seed, 3u);
  options = MixOptionsOf(MixOf("cutmix_alpha: 1"),
                         {PortOf("x", DType::kFloat32, {8, 4, 5})});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ((*options)->image, (ImageShape{1, 4, 5}));
  EXPECT_THAT(OptionsErrorOf("cutmix_alpha: 1", {image, image}),
              HasSubstr("for models with one input, but this one has 2"));
  EXPECT_THAT(OptionsErrorOf("cutmix_alpha: 1",
                             {PortOf("x", DType::kFloat32, {8, 20})}),
              HasSubstr("but the model's input 'x' is [20]; use mixup_alpha"));
}

TEST(BatchMixTest, AMixFollowsFromTheSeedAndTheBatch) {
  const MixOptions options = Options("mixup_alpha: 0.4");
  const BatchMix first = DrawMix(options, 7, 30);
  const BatchMix again = DrawMix(options, 7, 30);
  EXPECT_EQ(first.lambda, again.lambda);
  EXPECT_EQ(first.partners, again.partners);
  EXPECT_NE(DrawMix(options, 8, 30).partners, first.partners);
  MixOptions other = options;
  other.seed = 4;
  EXPECT_NE(DrawMix(other, 7, 30).partners, first.partners);
  const std::set<uint32_t> all(first.partners.begin(), first.partners.end());
  EXPECT_EQ(all.size(), 30u) << "a permutation";
  EXPECT_EQ(*all.rbegin(), 29u);
  // A shorter batch has the same lambda, since the rows are drawn last.
  EXPECT_EQ(DrawMix(options, 7, 4).lambda, first.lambda);
}

// The mean of Beta(a, a) is 1/2 and its variance 1 / (4 (2 a + 1)).
TEST(BatchMixTest, LambdaHasTheMomentsOfBeta) {
  constexpr int kBatches = 20'000;
  for (const double alpha : {0.2, 1.0, 5.0}) {
    const MixOptions options = Options("mixup_alpha: " + std::to_string(alpha));
    double sum = 0, squares = 0;
    for (uint64_t batch = 0; batch < kBatches; ++batch) {
      const double lambda = double{DrawMix(options, batch, 1).lambda};
      ASSERT_GE(lambda, 0);
      ASSERT_LE(lambda, 1);
      sum += lambda;
      squares += (lambda - 0.5) * (lambda - 0.5);
    }
    // More than five standard errors, and the seed is fixed.
    EXPECT_NEAR(sum / kBatches, 0.5, 0.02) << alpha;
    EXPECT_NEAR(squares / kBatches, 1 / (4 * (2 * alpha + 1)), 0.01) << alpha;
  }
}

TEST(BatchMixTest, TinyAndLargeAlphasGiveNumbers) {
  for (uint64_t batch = 0; batch < 200; ++batch) {
    const float tiny = DrawMix(Options("mixup_alpha: 1e-300"), batch, 1).lambda;
    EXPECT_TRUE(tiny == 0 || tiny == 1) << tiny;
    const float large = DrawMix(Options("mixup_alpha: 1000"), batch, 1).lambda;
    EXPECT_NEAR(large, 0.5f, 0.1f);
  }
}

TEST(BatchMixTest, ProbabilitiesChooseHowBatchesAreMixed) {
  const ImageShape image = {1, 8, 8};
  const auto count = [&](const std::string& mix) {
    int mixed = 0, cut = 0;
    for (uint64_t batch = 0; batch < 1000; ++batch) {
      const BatchMix drawn = DrawMix(Options(mix, image), batch, 2);
      cut += drawn.box.has_value();
      mixed += drawn.box.has_value() || drawn.lambda != 1;
    }
    return std::pair(mixed, cut);
  };
  const std::string both = "mixup_alpha: 1 cutmix_alpha: 1 ";
  EXPECT_EQ(count("mixup_alpha: 1"), std::pair(1000, 0));
  EXPECT_EQ(count("cutmix_alpha: 1"), std::pair(1000, 1000));
  EXPECT_EQ(count(both + "probability: 0"), std::pair(0, 0));
  EXPECT_EQ(count(both + "switch_probability: 1"), std::pair(1000, 1000));
  EXPECT_EQ(count(both + "switch_probability: 0"), std::pair(1000, 0));
  const auto [mixed, cut] = count(both + "probability: 0.5");
  EXPECT_NEAR(mixed, 500, 100);
  EXPECT_NEAR(cut, 250, 80);
}

TEST(BatchMixTest, MixupIsTheWeightedSumWithThePartner) {
  BatchMix mix = {.lambda = 0.75f, .partners = {2, 0, 1, 3}};
  std::vector<float> rows = {4, 8, 16, 32, 64, 128, 1, 2};
  MixRows(mix, absl::MakeSpan(rows));
  EXPECT_THAT(rows, ElementsAre(0.75f * 4 + 0.25f * 64, 0.75f * 8 + 0.25f * 128,
                                0.75f * 16 + 0.25f * 4, 0.75f * 32 + 0.25f * 8,
                                0.75f * 64 + 0.25f * 16,
                                0.75f * 128 + 0.25f * 32, 1, 2));
  mix = {.lambda = 1, .partners = {1, 0}};
  rows = {1, 2};
  MixRows(mix, absl::MakeSpan(rows));
  EXPECT_THAT(rows, ElementsAre(1, 2)) << "a batch that is not mixed";
}

TEST(BatchMixTest, MixingInPlaceIsThatWithACopy) {
  for (const char* kind : {"mixup_alpha: 1", "cutmix_alpha: 1"}) {
    const ImageShape image = {2, 4, 3};
    const size_t width = 24;
    for (uint64_t batch = 0; batch < 50; ++batch) {
      const BatchMix mix = DrawMix(Options(kind, image), batch, 9);
      std::vector<float> rows(9 * width);
      for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<float>(i);
      const std::vector<float> copy = rows;
      MixRows(mix, absl::MakeSpan(rows));
      for (size_t i = 0; i < rows.size(); ++i) {
        const float own = copy[i];
        const float other = copy[mix.partners[i / width] * width + i % width];
        if (mix.box.has_value()) {
          const auto y = static_cast<int64_t>(i / 3 % 4);
          const auto x = static_cast<int64_t>(i % 3);
          const bool inside =
              y >= mix.box->top && y < mix.box->top + mix.box->height &&
              x >= mix.box->left && x < mix.box->left + mix.box->width;
          ASSERT_EQ(rows[i], inside ? other : own) << batch << " " << i;
        } else {
          ASSERT_FLOAT_EQ(rows[i], mix.lambda * own + (1 - mix.lambda) * other);
        }
      }
    }
  }
}

TEST(BatchMixTest, LambdaOfABoxIsTheShareOfTheImageThatStays) {
  const ImageShape image = {3, 16, 12};
  bool some = false;
  for (uint64_t batch = 0; batch < 500; ++batch) {
    const BatchMix mix = DrawMix(Options("cutmix_alpha: 1", image), batch, 4);
    ASSERT_TRUE(mix.box.has_value());
    EXPECT_GE(mix.box->top, 0);
    EXPECT_GE(mix.box->left, 0);
    EXPECT_LE(mix.box->top + mix.box->height, image.height);
    EXPECT_LE(mix.box->left + mix.box->width, image.width);
    const int64_t area = mix.box->height * mix.box->width;
    some = some || area > 0;
    EXPECT_FLOAT_EQ(mix.lambda, 1 - static_cast<float>(area) / (16 * 12));
  }
  EXPECT_TRUE(some);
}

TEST(BatchMixTest, ABatchOfOneRowMixesWithItself) {
  std::vector<float> row(64, 0.375f);
  for (const char* kind : {"mixup_alpha: 1", "cutmix_alpha: 1"}) {
    const BatchMix mix = DrawMix(Options(kind, {1, 8, 8}), 5, 1);
    EXPECT_THAT(mix.partners, ElementsAre(0));
    MixRows(mix, absl::MakeSpan(row));
    EXPECT_THAT(row, Each(::testing::FloatEq(0.375f)));
  }
}

}  // namespace
}  // namespace gpupool::engine
