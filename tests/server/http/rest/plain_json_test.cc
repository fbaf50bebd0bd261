#include "server/http/rest/plain_json.h"

#include "gtest/gtest.h"
#include "inference/grpc_service.pb.h"
#include "nlohmann/json.hpp"

namespace gpupool::server {
namespace {

TEST(PlainJsonTest, IntegersOf64BitsAreNumbers) {
  inference::ModelStatisticsResponse response;
  auto* statistics = response.add_model_stats();
  statistics->set_name("m");
  statistics->set_last_inference(18446744073709551615u);
  statistics->mutable_inference_stats()->mutable_success()->set_count(3);
  auto* memory = statistics->add_memory_usage();
  memory->set_type("CPU");
  memory->set_id(-9223372036854775807);
  const auto json = nlohmann::json::parse(PlainJson(response));
  const auto& one = json["model_stats"][0];
  EXPECT_EQ(one["name"], "m");
  EXPECT_EQ(one["last_inference"].dump(), "18446744073709551615");
  EXPECT_EQ(one["inference_stats"]["success"]["count"], 3);
  EXPECT_EQ(one["memory_usage"][0]["id"].dump(), "-9223372036854775807");
}

TEST(PlainJsonTest, FieldsAtTheirDefaultAreThere) {
  EXPECT_EQ(PlainJson(inference::StatisticDuration()), R"({"count":0,"ns":0})");
  EXPECT_EQ(PlainJson(inference::ModelStatisticsResponse()),
            R"({"model_stats":[]})");
  // A message that is not set is not there.
  const auto json =
      nlohmann::json::parse(PlainJson(inference::ModelStatistics()));
  EXPECT_FALSE(json.contains("inference_stats"));
  EXPECT_TRUE(json["response_stats"].is_object());
}

TEST(PlainJsonTest, EnumsAreNamesAndMapsAreObjects) {
  inference::ModelConfig config;
  config.set_max_batch_size(8);
  auto* input = config.add_input();
  input->set_data_type(inference::TYPE_FP32);
  input->add_dims(-1);
  (*config.mutable_parameters())["key"].set_string_value("value");
  const auto json = nlohmann::json::parse(PlainJson(config));
  EXPECT_EQ(json["max_batch_size"], 8);
  EXPECT_EQ(json["input"][0]["data_type"], "TYPE_FP32");
  EXPECT_EQ(json["input"][0]["dims"].dump(), "[-1]");
  EXPECT_EQ(json["parameters"]["key"]["string_value"], "value");
}

TEST(PlainJsonTest, BytesAreBase64AndMembersOfAOneofAloneAreThere) {
  inference::ModelRepositoryParameter parameter;
  EXPECT_EQ(PlainJson(parameter), "{}");
  parameter.set_bytes_param(std::string("\0\xff", 2));
  EXPECT_EQ(PlainJson(parameter), R"({"bytes_param":"AP8="})");
  parameter.set_bool_param(false);
  EXPECT_EQ(PlainJson(parameter), R"({"bool_param":false})");
}

}  // namespace
}  // namespace gpupool::server
