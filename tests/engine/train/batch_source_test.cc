#include "engine/train/batch_source.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/graph/builder.h"
#include "engine/model/loss_terms.h"
#include "engine/train/input/batch_mix.h"
#include "gpupool/v1/job.pb.h"
#include "tests/engine/data/columns.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

constexpr uint32_t kSourceRows = 10;

v1::JobSpec JobOf(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return spec;
}

std::string LoaderErrorOf(const std::string& loader) {
  return std::string(
      CheckLoader(JobOf("data { loader { " + loader + " } }").data())
          .message());
}

TEST(BatchSourceTest, ChecksTheLoader) {
  EXPECT_EQ(LoaderErrorOf(""), "");
  EXPECT_EQ(LoaderErrorOf("workers: 64 prefetch: 256"), "");
  EXPECT_EQ(LoaderErrorOf("workers: 65"),
            "data.loader.workers is 65; at most 64 threads are allowed");
  EXPECT_EQ(LoaderErrorOf("workers: 1 prefetch: 257"),
            "data.loader.prefetch is 257; at most 256 batches are allowed");
  EXPECT_EQ(LoaderErrorOf("prefetch: 3"),
            "data.loader.prefetch is 3, but there is no thread that makes "
            "batches ahead; set data.loader.workers to at least 1");
}

TEST(BatchSourceTest, TwoBatchesAThreadAreAheadByDefault) {
  const auto batches = [](const std::string& loader) {
    return PrefetchedBatches(
        JobOf("data { loader { " + loader + " } }").data());
  };
  EXPECT_EQ(batches(""), 0u);
  EXPECT_EQ(batches("workers: 3"), 6u);
  EXPECT_EQ(batches("workers: 3 prefetch: 4"), 4u);
}

// Rows of one number, which is the row, and labels, which are rows + 100.
class BatchSourceFillTest : public ::testing::Test {
 protected:
  BatchSourceFillTest() {
    GraphBuilder builder(&graph_);
    EXPECT_TRUE(builder.Input("x", {DType::kFloat32, {2, 1}}).ok());
    EXPECT_TRUE(builder.Input("y", {DType::kInt64, {2}}).ok());
    std::vector<float> numbers, labels;
    for (uint32_t i = 0; i < kSourceRows; ++i) {
      numbers.push_back(static_cast<float>(i));
      labels.push_back(static_cast<float>(i + 100));
    }
    table_.rows = kSourceRows;
    table_.inputs.push_back(ColumnOf({1}, numbers));
    table_.targets.push_back(ColumnOf({}, labels));
  }

  BatchSource Source() {
    LandingLayout layout;
    layout.Add("x", 2 * sizeof(float));
    layout.Add("y", 2 * sizeof(int64_t));
    return BatchSource({.table = table_,
                        .fed = fed_,
                        .graph = graph_,
                        .layout = layout,
                        .seed = 1,
                        .batches_per_epoch = 5});
  }

  // Returns the numbers and the labels of a batch.
  std::pair<std::vector<float>, std::vector<int64_t>> Filled(
      BatchSource& source, uint64_t number, const std::vector<uint32_t>& rows) {
    std::vector<float> x(2, -1);
    std::vector<int64_t> y(2, -1);
    const auto bytes = [](auto& numbers) {
      return absl::MakeSpan(reinterpret_cast<std::byte*>(numbers.data()),
                            numbers.size() * sizeof(numbers[0]));
    };
    const absl::Status filled =
        source.Fill(number, rows, [&](absl::string_view name) {
          return name == "x"   ? bytes(x)
                 : name == "y" ? bytes(y)
                               : absl::Span<std::byte>();
        });
    EXPECT_TRUE(filled.ok()) << filled;
    return {x, y};
  }

  Graph graph_;
  Table table_;
  const std::vector<FedInput> fed_ = {{.name = "x"},
                                      {.name = "y", .target = true}};
};

TEST_F(BatchSourceFillTest, FillsWithTheRowsThatAreAskedFor) {
  BatchSource source = Source();
  const auto [x, y] = Filled(source, 3, {7, 2});
  EXPECT_THAT(x, ElementsAre(7, 2));
  EXPECT_THAT(y, ElementsAre(107, 102));
}

TEST_F(BatchSourceFillTest, EachBatchIsMixedByItsNumber) {
  MixOptions options;
  options.mix.set_mixup_alpha(1);
  options.seed = 1;
  BatchSource source({.table = table_,
                      .fed = fed_,
                      .graph = graph_,
                      .seed = 1,
                      .batches_per_epoch = 5,
                      .mix = options});
  const std::vector<uint32_t> rows = {1, 4};
  std::vector<float> lambdas;
  for (const uint64_t number : {6, 7}) {
    float x[2] = {}, lambda = -1;
    const absl::Status filled =
        source.Fill(number, rows, [&](absl::string_view name) {
          const auto bytes = [](float* numbers, size_t count) {
            return absl::MakeSpan(reinterpret_cast<std::byte*>(numbers),
                                  count * sizeof(float));
          };
          return name == "x"              ? bytes(x, 2)
                 : name == kMixLambdaName ? bytes(&lambda, 1)
                                          : absl::Span<std::byte>();
        });
    ASSERT_TRUE(filled.ok()) << filled;
    const BatchMix drawn = DrawMix(options, number, 2);
    EXPECT_EQ(lambda, drawn.lambda);
    for (size_t i = 0; i < 2; ++i) {
      const auto own = static_cast<float>(rows[i]);
      const auto other = static_cast<float>(rows[drawn.partners[i]]);
      EXPECT_FLOAT_EQ(x[i], lambda * own + (1 - lambda) * other) << number;
    }
    lambdas.push_back(lambda);
  }
  EXPECT_NE(lambdas[0], lambdas[1]);
}

TEST_F(BatchSourceFillTest, BatchesAheadBeginAtTheSamplersPosition) {
  // A step has two batches of two rows, and an epoch two steps.
  const v1::JobSpec spec = JobOf(
      "data { loader { workers: 2 } } training { accumulate_batches: 2 }");
  std::vector<uint32_t> rows;
  for (uint32_t i = 0; i < kSourceRows; ++i) rows.push_back(i);
  auto sampler = DistributedSampler::Create({.seed = 4, .batch_size = 4}, rows);
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  sampler->Seek(1);
  BatchSource source = Source();
  ASSERT_TRUE(source.LoadAhead(spec, *sampler, 6).ok());
  BatchSource plain = Source();
  for (uint64_t step = 1; step < 6; ++step) {
    const auto step_rows = sampler->Next();
    for (uint64_t batch = 0; batch < 2; ++batch) {
      const std::vector<uint32_t> own(step_rows.begin() + 2 * batch,
                                      step_rows.begin() + 2 * batch + 2);
      const uint64_t number = 2 * step + batch;
      EXPECT_EQ(Filled(source, number, own), Filled(plain, number, own))
          << number;
    }
  }
}

TEST_F(BatchSourceFillTest, AShorterBatchFillsSmallerInputs) {
  const v1::JobSpec spec = JobOf("data { loader { workers: 1 } }");
  auto sampler = DistributedSampler::Create(
      {.batch_size = 2, .shuffle = false, .keep_last = true}, {5, 6, 7});
  ASSERT_TRUE(sampler.ok()) << sampler.status();
  BatchSource source = Source();
  ASSERT_TRUE(source.LoadAhead(spec, *sampler, 3).ok());
  EXPECT_THAT(Filled(source, 0, {5, 6}).first, ElementsAre(5, 6));
  float x = -1;
  const absl::Status filled = source.Fill(1, {7}, [&](absl::string_view name) {
    if (name != "x") return absl::Span<std::byte>();
    return absl::MakeSpan(reinterpret_cast<std::byte*>(&x), sizeof(x));
  });
  ASSERT_TRUE(filled.ok()) << filled;
  EXPECT_EQ(x, 7);
  EXPECT_THAT(Filled(source, 2, {5, 6}).first, ElementsAre(5, 6));
}

}  // namespace
}  // namespace gpupool::engine
