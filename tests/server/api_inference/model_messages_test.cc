#include "server/api/inference/model_messages.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/serving/served_model.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;

class ModelMessagesTest : public ::testing::Test {
 protected:
  WakeTimer timer_;
  VersionHandle version_ = MakeServedVersion("digits", 3, 30, &timer_);
};

TEST_F(ModelMessagesTest, MetadataLeadsWithTheBatchDimension) {
  inference::ModelMetadataResponse response;
  FillMetadata(*version_, &response);
  EXPECT_EQ(response.name(), "digits");
  ASSERT_EQ(response.inputs_size(), 1);
  EXPECT_EQ(response.inputs(0).datatype(), "FP32");
  EXPECT_THAT(response.inputs(0).shape(), ElementsAre(-1, 2));
  EXPECT_THAT(response.outputs(0).shape(), ElementsAre(-1, 2));
}

TEST_F(ModelMessagesTest, ConfigLeavesTheBatchDimensionOut) {
  version_->set_device("cuda:1");
  inference::ModelConfig config;
  FillConfig(*version_, &config);
  EXPECT_EQ(config.max_batch_size(), 32);
  EXPECT_THAT(config.input(0).dims(), ElementsAre(2));
  EXPECT_EQ(config.output(0).data_type(), inference::TYPE_FP32);
  EXPECT_EQ(config.instance_group(0).kind(),
            inference::ModelInstanceGroup::KIND_GPU);
  EXPECT_THAT(config.instance_group(0).gpus(), ElementsAre(1));
  EXPECT_FALSE(config.dynamic_batching().preserve_ordering());
  EXPECT_EQ(config.dynamic_batching().default_queue_policy().max_queue_size(),
            1024u);
  EXPECT_FALSE(config.model_transaction_policy().decoupled());
  EXPECT_FALSE(config.has_response_cache());
}

TEST_F(ModelMessagesTest, WidenedTypesAreDeclaredAsInTheFile) {
  for (const v1::DataType type :
       {v1::UINT16, v1::INT16, v1::UINT32, v1::UINT64}) {
    v1::ModelVersion message = MakeModelVersion("ids", 1, 11);
    message.mutable_plan()->mutable_inputs(0)->set_data_type(type);
    message.mutable_plan()->mutable_outputs(0)->set_data_type(type);
    const VersionHandle version = MakeServedVersion(message, &timer_);
    inference::ModelMetadataResponse metadata;
    FillMetadata(*version, &metadata);
    EXPECT_EQ(metadata.inputs(0).datatype(), v1::DataType_Name(type));
    EXPECT_EQ(metadata.outputs(0).datatype(), v1::DataType_Name(type));
    inference::ModelConfig config;
    FillConfig(*version, &config);
    EXPECT_EQ(inference::DataType_Name(config.input(0).data_type()),
              "TYPE_" + v1::DataType_Name(type));
  }
}

TEST_F(ModelMessagesTest, ConfigSaysThatANewVersionReplacesTheOlder) {
  inference::ModelConfig config;
  FillConfig(*version_, &config);
  EXPECT_EQ(config.version_policy().latest().num_versions(), 1u);
}

TEST_F(ModelMessagesTest, StatisticsCarryCountsAndStages) {
  version_->batcher().statistics().RequestDone(
      {.rows = 2,
       .total = absl::Nanoseconds(10),
       .queue = absl::Nanoseconds(4),
       .copy_in = absl::Nanoseconds(1),
       .compute = absl::Nanoseconds(3),
       .copy_out = absl::Nanoseconds(2)},
      absl::FromUnixMillis(5));
  version_->batcher().statistics().BatchDone(
      {.requests = 1, .rows = 2, .compute = absl::Nanoseconds(3)});
  version_->batcher().RecordCache({.hit = true, .time = absl::Nanoseconds(6)});
  version_->batcher().RecordCache({.hit = false, .time = absl::Nanoseconds(7)});
  inference::ModelStatistics statistics;
  FillStatistics(*version_, &statistics);
  EXPECT_EQ(statistics.version(), "3");
  EXPECT_EQ(statistics.last_inference(), 5u);
  EXPECT_EQ(statistics.inference_count(), 2u);
  EXPECT_EQ(statistics.execution_count(), 1u);
  EXPECT_EQ(statistics.inference_stats().success().ns(), 23u);
  EXPECT_EQ(statistics.inference_stats().queue().ns(), 4u);
  EXPECT_EQ(statistics.inference_stats().compute_input().ns(), 1u);
  EXPECT_EQ(statistics.inference_stats().compute_infer().ns(), 3u);
  EXPECT_EQ(statistics.inference_stats().compute_output().ns(), 2u);
  EXPECT_EQ(statistics.inference_stats().cache_hit().ns(), 6u);
  EXPECT_EQ(statistics.inference_stats().cache_miss().ns(), 7u);
  EXPECT_EQ(statistics.batch_stats(0).batch_size(), 2u);
}

TEST_F(ModelMessagesTest, StatisticsNameTheDeviceOfTheBytes) {
  v1::ModelVersion message = MakeModelVersion("digits", 1, 11);
  message.mutable_plan()->mutable_inference()->set_peak(4096);
  const VersionHandle version = MakeServedVersion(message, &timer_);
  version->set_device("cuda:1");
  inference::ModelStatistics statistics;
  FillStatistics(*version, &statistics);
  ASSERT_EQ(statistics.memory_usage_size(), 1);
  EXPECT_EQ(statistics.memory_usage(0).type(), "GPU");
  EXPECT_EQ(statistics.memory_usage(0).id(), 1);
  EXPECT_EQ(statistics.memory_usage(0).byte_size(), 4096u);
}

TEST_F(ModelMessagesTest, IndexStatesAreTheProtocolsWords) {
  const struct {
    v1::VersionState state;
    bool ready;
    const char* text;
    const char* reason;
  } rows[] = {{v1::READY, true, "READY", ""},
              {v1::READY, false, "LOADING", ""},
              {v1::LOADING, false, "LOADING", ""},
              {v1::UNLOADING, false, "UNLOADING", ""},
              {v1::UNLOADED, false, "UNAVAILABLE", "unloaded"},
              {v1::LOAD_FAILED, false, "UNAVAILABLE", "too large"}};
  for (const auto& row : rows) {
    v1::ModelVersion version = MakeModelVersion("m", 1, 1);
    version.set_state(row.state);
    if (row.state == v1::LOAD_FAILED) version.set_error("too large");
    inference::RepositoryIndexResponse::ModelIndex index;
    FillIndex(version, row.ready, &index);
    EXPECT_EQ(index.state(), row.text);
    EXPECT_EQ(index.reason(), row.reason);
  }
}

}  // namespace
}  // namespace gpupool::server
