#include "client/inference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "client/client.h"
#include "inference/grpc_service.pb.h"
#include "tests/client/testing/fake_server.h"

namespace gpupool::client {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CsvRows Table() {
  return {.rows = 3, .width = 2, .features = {1, 2, 3, 4, 5, 6}};
}

class InferenceTest : public ::testing::Test {
 protected:
  InferenceTest() { client_ = *Client::Create({.address = server_.address()}); }

  FakeServer server_;
  std::unique_ptr<Client> client_;
};

TEST_F(InferenceTest, KeepsTheOrderOfTheRows) {
  const auto run = RunInference(*client_, {.model = "sum", .concurrency = 4},
                                {.table = Table(), .positions = {2, 0}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->Row(0), ElementsAre(11, -1));
  EXPECT_THAT(run->Row(1), ElementsAre(3, -1));
  EXPECT_EQ(run->latencies_ms.size(), 2u);
  EXPECT_GT(run->seconds, 0);
}

TEST_F(InferenceTest, PutsRowsTogetherAndSendsTheRest) {
  const auto run = RunInference(*client_, {.model = "sum", .batch = 2},
                                {.table = Table(), .positions = {0, 1, 2}});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_THAT(run->Row(2), ElementsAre(11, -1));
  absl::MutexLock lock(&server_.state.mutex);
  EXPECT_THAT(server_.state.request_rows, ElementsAre(2, 1));
}

TEST_F(InferenceTest, RefusesATableOfAnotherWidth) {
  CsvRows table{.rows = 1, .width = 3, .features = {1, 2, 3}};
  EXPECT_THAT(RunInference(*client_, {.model = "sum"},
                           {.table = table, .positions = {0}})
                  .status()
                  .message(),
              HasSubstr("takes 2 numbers a row (shape [2]), the table has 3"));
}

TEST_F(InferenceTest, ReturnsTheFirstFailure) {
  {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.failures["ModelInfer"] = {
        absl::InvalidArgumentError("no good")};
  }
  EXPECT_EQ(RunInference(*client_, {.model = "sum"},
                         {.table = Table(), .positions = {0, 1}})
                .status()
                .message(),
            "no good");
}

TEST_F(InferenceTest, NamesAnUnknownModel) {
  EXPECT_TRUE(
      absl::IsNotFound(RunInference(*client_, {.model = "none"},
                                    {.table = Table(), .positions = {0}})
                           .status()));
}

TEST(ShapeFromMetadataTest, RefusesWhatATableCannotFeed) {
  inference::ModelMetadataResponse metadata;
  metadata.set_name("m");
  EXPECT_THAT(ShapeFromMetadata(metadata).status().message(),
              HasSubstr("has 0 inputs"));
  auto& input = *metadata.add_inputs();
  auto& output = *metadata.add_outputs();
  output.set_datatype("FP32");
  output.add_shape(-1);
  input.set_name("text");
  input.set_datatype("BYTES");
  input.add_shape(-1);
  EXPECT_THAT(ShapeFromMetadata(metadata).status().message(),
              HasSubstr("'text' of model 'm' has datatype BYTES"));
  input.set_datatype("FP32");
  input.add_shape(-1);
  EXPECT_THAT(ShapeFromMetadata(metadata).status().message(),
              HasSubstr("only the first dimension may vary"));
  input.set_shape(1, 4);
  EXPECT_TRUE(ShapeFromMetadata(metadata).ok());
  input.set_datatype("FP16");
  output.set_datatype("BF16");
  const auto shape = ShapeFromMetadata(metadata);
  ASSERT_TRUE(shape.ok()) << shape.status();
  EXPECT_EQ(shape->input_type, "FP16");
  EXPECT_EQ(shape->output_type, "BF16");
}

TEST(ArgMaxTest, TakesTheFirstOfEquals) {
  EXPECT_EQ(ArgMax({1, 3, 3, 2}), 1u);
  EXPECT_EQ(ArgMax({-5}), 0u);
}

TEST(QuantileTest, IsTheNearestRank) {
  EXPECT_EQ(Quantile({4, 1, 3, 2}, 0.5), 2);
  EXPECT_EQ(Quantile({4, 1, 3, 2}, 0.99), 4);
  EXPECT_EQ(Quantile({7}, 0.5), 7);
  EXPECT_EQ(Quantile({}, 0.5), 0);
}

}  // namespace
}  // namespace gpupool::client
