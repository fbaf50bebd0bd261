// Trains on rows that data.transforms change.
#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/train/training_run.h"
#include "tests/engine/train/run_fixture.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

constexpr int kImageRows = 60;
constexpr int kImageSide = 6;
constexpr char kRandom[] = R"(
  transforms { to_float { factor: 0.125 } }
  transforms { random_crop { size: 6 padding: 1 } }
  transforms { random_horizontal_flip {} }
  transforms { random_rotation { degrees: 20 } }
  transforms { color_jitter { brightness: 0.4 maximum: 1 } }
  transforms { random_erasing { p: 0.3 } }
  transforms { normalize { mean: 0.5 std: 0.25 } })";

class TrainingTransformsTest : public RunFixture {
 protected:
  // Returns images of whole numbers 0 to 8, times the factor, and labels. The
  // images have `border` pixels of 0 around them.
  v1::Dataset StoreImages(double factor, int border = 0) {
    Philox random(9);
    std::string text;
    const int side = kImageSide + 2 * border;
    for (int i = 0; i < kImageRows; ++i) {
      for (int y = 0; y < side; ++y) {
        for (int x = 0; x < side; ++x) {
          const bool inside = y >= border && y < kImageSide + border &&
                              x >= border && x < kImageSide + border;
          const double number =
              inside ? static_cast<double>(random.NextBelow(9)) : 0;
          absl::StrAppend(&text, number * factor, ",");
        }
      }
      absl::StrAppend(&text, i % 3, "\n");
    }
    return StoreCsv(text);
  }

  // Returns a job for images of a side; its data is in text format.
  static v1::JobSpec Job(const std::string& data) {
    v1::JobSpec spec;
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
        absl::StrCat("data { held_out { last: 12 } ", data, R"pb(}
                                                                 model {
                 input_shape: [ 1, 6, 6 ]
                 layers { conv2d { filters: 3 kernel: 3 } }
                 layers { flatten {} }
                 layers { dense { units: 3 } }
               }
               training {
                 cross_entropy {}
                 adam { learning_rate: 0.01 }
                 batch_size: 8
                 epochs: 4
                 seed: 5
               })pb"),
        &spec));
    return spec;
  }

  // Makes steps until this one. Returns the digest of a checkpoint, which
  // stands for every bit of the weights and of the evaluation.
  static std::string StepTo(TrainingRun& run, uint64_t step) {
    MakeSteps(run, step);
    const auto evaluation = run.Evaluate();
    EXPECT_TRUE(evaluation.ok()) << evaluation.status();
    return Saved(run);
  }

  std::string Train(const v1::JobSpec& spec, const v1::Dataset& dataset) {
    auto run = StartRun(spec, dataset);
    EXPECT_TRUE(run.ok()) << run.status();
    return run.ok() ? StepTo(**run, 24) : "";
  }
};

TEST_F(TrainingTransformsTest, PlainTransformsAreThoseOfPreparedRows) {
  // Factors are powers of two, so that nothing is rounded.
  const std::string wanted = Train(Job(""), StoreImages(0.25));
  ASSERT_FALSE(wanted.empty());
  EXPECT_EQ(
      Train(Job("transforms { to_float { factor: 0.25 } }"), StoreImages(1)),
      wanted);
}

TEST_F(TrainingTransformsTest, RandomTransformsChangeTheTraining) {
  const v1::Dataset dataset = StoreImages(1);
  const std::string plain =
      Train(Job("transforms { to_float { factor: 0.125 } }"), dataset);
  const std::string random = Train(Job(kRandom), dataset);
  EXPECT_NE(random, plain);
  EXPECT_EQ(Train(Job(kRandom), dataset), random) << "the same each time";
}

TEST_F(TrainingTransformsTest, EvaluationHasNoRandomTransforms) {
  const v1::Dataset dataset = StoreImages(1);
  const auto loss = [&](const std::string& data) {
    auto run = StartRun(Job(data), dataset);
    EXPECT_TRUE(run.ok()) << run.status();
    return (*run)->Evaluate()->loss();
  };
  const std::string plain =
      "transforms { to_float { factor: 0.125 } } "
      "transforms { normalize { mean: 0.5 std: 0.25 } }";
  EXPECT_EQ(loss(kRandom), loss(plain));
  EXPECT_NE(loss(plain), loss(""));
}

TEST_F(TrainingTransformsTest, AnInterruptedRunEndsWithTheSameBits) {
  const v1::Dataset dataset = StoreImages(1);
  for (const uint32_t batches : {1u, 2u}) {
    v1::JobSpec spec = Job(kRandom);
    spec.mutable_training()->set_accumulate_batches(batches);
    auto whole = StartRun(spec, dataset);
    auto first = StartRun(spec, dataset);
    ASSERT_TRUE(whole.ok() && first.ok());
    StepTo(**whole, 4);
    const std::string saved = StepTo(**first, 4);  // within an epoch
    const std::string wanted = StepTo(**whole, 11);
    auto second = StartRun(spec, dataset, saved);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(StepTo(**second, 11), wanted);
  }
}

TEST_F(TrainingTransformsTest, BatchesMadeAheadAreTheSame) {
  const v1::Dataset dataset = StoreImages(1);
  for (const uint32_t batches : {1u, 2u}) {
    v1::JobSpec spec = Job(kRandom);
    spec.mutable_training()->set_accumulate_batches(batches);
    auto plain = StartRun(spec, dataset);
    ASSERT_TRUE(plain.ok()) << plain.status();
    const uint64_t steps = (*plain)->total_steps();
    const std::string wanted = StepTo(**plain, steps);
    for (const char* loader :
         {"workers: 1 prefetch: 1", "workers: 2", "workers: 3 prefetch: 50"}) {
      SCOPED_TRACE(loader);
      v1::JobSpec ahead = Job(absl::StrCat(kRandom, " loader { ", loader, "}"));
      ahead.mutable_training()->set_accumulate_batches(batches);
      auto run = StartRun(ahead, dataset);
      ASSERT_TRUE(run.ok()) << run.status();
      EXPECT_EQ(StepTo(**run, steps), wanted);
      EXPECT_GT((*run)->input_wait(), 0);
    }
  }
}

TEST_F(TrainingTransformsTest, BatchesMadeAheadAreNoPartOfACheckpoint) {
  const v1::Dataset dataset = StoreImages(1);
  const v1::JobSpec plain = Job(kRandom);
  v1::JobSpec ahead = plain;
  ahead.mutable_data()->mutable_loader()->set_workers(2);
  ahead.mutable_data()->mutable_loader()->set_prefetch(9);
  auto whole = StartRun(plain, dataset);
  auto first = StartRun(ahead, dataset);
  ASSERT_TRUE(whole.ok() && first.ok());
  StepTo(**whole, 4);
  const std::string saved = StepTo(**first, 4);
  first->reset();  // while batches are being made
  const std::string wanted = StepTo(**whole, 11);
  for (const v1::JobSpec& spec : {plain, ahead}) {
    auto second = StartRun(spec, dataset, saved);
    ASSERT_TRUE(second.ok()) << second.status();
    EXPECT_EQ(StepTo(**second, 11), wanted);
  }
}

TEST_F(TrainingTransformsTest, CropsChangeTheSizeOfRows) {
  // Rows of a table have the shape of the model's input only if it has as many
  // numbers, so a table of larger images is refused.
  auto refused = StartRun(Job("transforms { center_crop { size: 6 } }"),
                          StoreImages(1, 1));
  EXPECT_THAT(std::string(refused.status().message()),
              HasSubstr("data.transforms are for images"));
  // The same size twice leaves the rows as they are.
  const v1::Dataset dataset = StoreImages(1);
  EXPECT_EQ(Train(Job("transforms { center_crop { size: 6 } } "
                      "transforms { resize { size: 6 } }"),
                  dataset),
            Train(Job(""), dataset));
}

TEST_F(TrainingTransformsTest, ABadTransformIsRefusedAtTheStart) {
  auto refused = StartRun(
      Job("transforms { random_rotation { degrees: 200 } }"), StoreImages(1));
  EXPECT_EQ(refused.status().message(),
            "data.transforms[0].random_rotation: degrees is 200; it must be "
            "from 0 to 180");
}

}  // namespace
}  // namespace gpupool::engine
