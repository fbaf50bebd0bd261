#include "server/api/inference/inference_service.h"

#include <thread>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/api_inference/inference_server.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class InferenceServiceTest : public ::testing::Test {
 protected:
  grpc::Status Infer(const inference::ModelInferRequest& request,
                     absl::Duration timeout = absl::Seconds(20)) {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + timeout));
    return server_.stub->ModelInfer(&context, request, &response_);
  }
  void ExpectError(const inference::ModelInferRequest& request,
                   grpc::StatusCode code, const std::string& text) {
    const grpc::Status status = Infer(request);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr(text));
  }
  template <typename Method, typename Request, typename Response>
  grpc::Status Call(Method method, const Request& request, Response* response) {
    grpc::ClientContext context;
    return (server_.stub.get()->*method)(&context, request, response);
  }
  void WaitForQueue(size_t length) {
    const auto version = server_.serving.registry().FindById(10);
    ASSERT_TRUE(WaitUntil([&] {
      return version->batcher().queue_length() == length;
    })) << version->batcher().queue_length();
  }

  void WaitForSlots(size_t in_use) {
    const auto ring = server_.worker.ring();
    ASSERT_TRUE(WaitUntil([&] { return ring->slots_in_use() == in_use; }))
        << ring->slots_in_use();
  }

  InferenceServer server_;
  inference::ModelInferResponse response_;
};

using Stub = inference::GRPCInferenceService::Stub;

TEST_F(InferenceServiceTest, AnswersRawContentsAndFillsInVersionAndId) {
  auto request = RawRequest({1, 2, 3, 4});
  request.set_id("abc");
  ASSERT_TRUE(Infer(request).ok());
  EXPECT_EQ(response_.model_name(), "digits");
  EXPECT_EQ(response_.model_version(), "1");
  EXPECT_EQ(response_.id(), "abc");
  ASSERT_EQ(response_.outputs_size(), 1);
  EXPECT_EQ(response_.outputs(0).name(), "output");
  EXPECT_EQ(response_.outputs(0).datatype(), "FP32");
  EXPECT_THAT(response_.outputs(0).shape(), ElementsAre(2, 2));
  EXPECT_THAT(RawOutput(response_), ElementsAre(2, 4, 6, 8));
}

TEST_F(InferenceServiceTest, AnswersTypedContentsRaw) {
  auto request = RawRequest({0, 0});
  request.clear_raw_input_contents();
  for (float value : {5.f, 6.f}) {
    request.mutable_inputs(0)->mutable_contents()->add_fp32_contents(value);
  }
  ASSERT_TRUE(Infer(request).ok());
  EXPECT_THAT(RawOutput(response_), ElementsAre(10, 12));
  EXPECT_FALSE(response_.outputs(0).has_contents());
}

TEST_F(InferenceServiceTest, WrongTensorsAreInvalidAndLoseNothing) {
  auto wrong_name = RawRequest({1, 2});
  wrong_name.mutable_inputs(0)->set_name("pixels");
  ExpectError(wrong_name, grpc::INVALID_ARGUMENT,
              "unexpected inference input 'pixels'");
  auto wrong_type = RawRequest({1, 2});
  wrong_type.mutable_inputs(0)->set_datatype("INT32");
  ExpectError(wrong_type, grpc::INVALID_ARGUMENT, "expects 'FP32'");
  auto unknown_type = RawRequest({1, 2});
  unknown_type.mutable_inputs(0)->set_datatype("BYTES");
  ExpectError(unknown_type, grpc::INVALID_ARGUMENT, "expects 'FP32'");
  auto wrong_shape = RawRequest({1, 2});
  wrong_shape.mutable_inputs(0)->set_shape(1, 3);
  ExpectError(wrong_shape, grpc::INVALID_ARGUMENT, "expected [-1,2]");
  auto wrong_bytes = RawRequest({1, 2});
  wrong_bytes.set_raw_input_contents(0, "1234567");
  ExpectError(wrong_bytes, grpc::INVALID_ARGUMENT, "byte size 7");
  ExpectError(RawRequest(std::vector<float>(10)), grpc::INVALID_ARGUMENT,
              "batch-size must be <= 4");
  auto wrong_output = RawRequest({1, 2});
  wrong_output.add_outputs()->set_name("logits");
  ExpectError(wrong_output, grpc::INVALID_ARGUMENT, "'logits'");
  EXPECT_TRUE(Infer(RawRequest({1, 2})).ok());
}

TEST_F(InferenceServiceTest, UnknownModelsAndVersionsAreNotFound) {
  auto request = RawRequest({1, 2});
  request.set_model_version("7");
  ExpectError(request, grpc::NOT_FOUND, "'digits' version 7 is not found");
  request.set_model_version("latest");
  ExpectError(request, grpc::INVALID_ARGUMENT, "'latest'");
  request.set_model_name("cats");
  request.clear_model_version();
  ExpectError(request, grpc::NOT_FOUND,
              "Request for unknown model: 'cats' is not found");
}

TEST_F(InferenceServiceTest, RequestsBeyondTheByteLimitAreRefused) {
  auto request = RawRequest({1, 2});
  request.set_raw_input_contents(0, std::string(2 << 20, 'x'));
  ExpectError(request, grpc::RESOURCE_EXHAUSTED, "of 1048576 bytes");
  EXPECT_TRUE(Infer(RawRequest({1, 2})).ok());
}

TEST_F(InferenceServiceTest, ADeadlineThatPassesInTheQueueIsAnswered) {
  server_.worker.Pause();
  EXPECT_EQ(Infer(RawRequest({1, 2}), absl::Milliseconds(30)).error_code(),
            grpc::DEADLINE_EXCEEDED);
  server_.worker.Resume();
  EXPECT_TRUE(Infer(RawRequest({1, 2})).ok());
}

TEST_F(InferenceServiceTest, ACancelledRequestIsDroppedFromTheQueue) {
  server_.worker.Pause();
  grpc::ClientContext context;
  std::vector<std::thread> callers;
  // Sends requests one after the other up to the limit in flight, because
  // requests that arrive together may share a batch.
  for (size_t in_flight = 1; in_flight <= 2; ++in_flight) {
    callers.emplace_back([this] {
      grpc::ClientContext own;
      inference::ModelInferResponse response;
      EXPECT_TRUE(
          server_.stub->ModelInfer(&own, RawRequest({1, 2}), &response).ok());
    });
    WaitForSlots(in_flight);
  }
  grpc::Status cancelled;
  callers.emplace_back([&] {
    inference::ModelInferResponse response;
    cancelled =
        server_.stub->ModelInfer(&context, RawRequest({1, 2}), &response);
  });
  WaitForQueue(1);
  context.TryCancel();
  WaitForQueue(0);
  server_.worker.Resume();
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(cancelled.error_code(), grpc::CANCELLED);
  EXPECT_THAT(server_.worker.batches(), ElementsAre(1, 1));
}

TEST_F(InferenceServiceTest, ADrainingServerIsLiveAndNotReady) {
  inference::ServerReadyResponse ready;
  ASSERT_TRUE(
      Call(&Stub::ServerReady, inference::ServerReadyRequest(), &ready).ok());
  EXPECT_TRUE(ready.ready());
  server_.serving.Stop();
  ASSERT_TRUE(
      Call(&Stub::ServerReady, inference::ServerReadyRequest(), &ready).ok());
  EXPECT_FALSE(ready.ready());
  inference::ServerLiveResponse live;
  ASSERT_TRUE(
      Call(&Stub::ServerLive, inference::ServerLiveRequest(), &live).ok());
  EXPECT_TRUE(live.live());
  ExpectError(RawRequest({1, 2}), grpc::UNAVAILABLE, "Server not ready");
}

TEST_F(InferenceServiceTest, AServerThatStillLoadsItsModelsIsNotReady) {
  inference::ServerReadyResponse ready;
  server_.ready = false;
  ASSERT_TRUE(
      Call(&Stub::ServerReady, inference::ServerReadyRequest(), &ready).ok());
  EXPECT_FALSE(ready.ready());
  server_.ready = true;
  ASSERT_TRUE(
      Call(&Stub::ServerReady, inference::ServerReadyRequest(), &ready).ok());
  EXPECT_TRUE(ready.ready());
}

TEST_F(InferenceServiceTest, ModelReadyIsFalseForWhatIsNotServed) {
  inference::ModelReadyRequest request;
  inference::ModelReadyResponse response;
  request.set_name("digits");
  ASSERT_TRUE(Call(&Stub::ModelReady, request, &response).ok());
  EXPECT_TRUE(response.ready());
  request.set_version("2");
  ASSERT_TRUE(Call(&Stub::ModelReady, request, &response).ok());
  EXPECT_FALSE(response.ready());
  request.set_name("cats");
  ASSERT_TRUE(Call(&Stub::ModelReady, request, &response).ok());
  EXPECT_FALSE(response.ready());
  request.set_version("x");
  EXPECT_EQ(Call(&Stub::ModelReady, request, &response).error_code(),
            grpc::INVALID_ARGUMENT);
}

TEST_F(InferenceServiceTest, MetadataAndConfigDescribeTheModel) {
  inference::ServerMetadataResponse server;
  ASSERT_TRUE(
      Call(&Stub::ServerMetadata, inference::ServerMetadataRequest(), &server)
          .ok());
  EXPECT_EQ(server.name(), "gpupool");
  EXPECT_EQ(server.version(), "1.2.3");
  EXPECT_THAT(
      server.extensions(),
      ElementsAre("model_repository", "model_repository(unload_dependents)",
                  "model_configuration", "binary_tensor_data", "parameters",
                  "sequence", "statistics", "logging", "classification"));

  inference::ModelMetadataRequest metadata_request;
  metadata_request.set_name("digits");
  inference::ModelMetadataResponse metadata;
  ASSERT_TRUE(Call(&Stub::ModelMetadata, metadata_request, &metadata).ok());
  EXPECT_THAT(metadata.versions(), ElementsAre("1"));
  EXPECT_EQ(metadata.inputs(0).name(), "input");
  EXPECT_EQ(metadata.inputs(0).datatype(), "FP32");
  EXPECT_THAT(metadata.inputs(0).shape(), ElementsAre(-1, 2));
  EXPECT_EQ(metadata.outputs(0).name(), "output");

  inference::ModelConfigRequest config_request;
  config_request.set_name("digits");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(Call(&Stub::ModelConfig, config_request, &config).ok());
  EXPECT_EQ(config.config().max_batch_size(), 4);
  EXPECT_EQ(config.config().input(0).data_type(), inference::TYPE_FP32);
  EXPECT_THAT(config.config().input(0).dims(), ElementsAre(2));
  EXPECT_EQ(config.config().instance_group(0).name(), "cpu:0");
}

TEST_F(InferenceServiceTest, StatisticsHaveOneEntryPerVersion) {
  ASSERT_TRUE(Infer(RawRequest({1, 2, 3, 4})).ok());
  inference::ModelStatisticsRequest request;
  inference::ModelStatisticsResponse response;
  request.set_name("digits");
  ASSERT_TRUE(Call(&Stub::ModelStatistics, request, &response).ok());
  ASSERT_EQ(response.model_stats_size(), 1);
  EXPECT_EQ(response.model_stats(0).inference_count(), 2u);
  EXPECT_EQ(response.model_stats(0).execution_count(), 1u);
  EXPECT_EQ(response.model_stats(0).inference_stats().success().count(), 1u);
  EXPECT_EQ(response.model_stats(0).batch_stats(0).batch_size(), 2u);
  request.set_name("cats");
  const grpc::Status status = Call(&Stub::ModelStatistics, request, &response);
  EXPECT_EQ(status.error_code(), grpc::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(),
              HasSubstr("requested model 'cats' is not available"));
}

TEST_F(InferenceServiceTest, HitsOfTheResponseCacheAreInTheStatistics) {
  server_.serving.SetCaching("digits", true);
  for (int i = 0; i < 3; ++i) {
    response_.Clear();
    ASSERT_TRUE(Infer(RawRequest({1, 2})).ok());
    EXPECT_EQ(response_.model_name(), "digits");
    EXPECT_EQ(response_.model_version(), "1");
    EXPECT_THAT(RawOutput(response_), ElementsAre(2, 4));
  }
  inference::ModelStatisticsRequest request;
  inference::ModelStatisticsResponse response;
  ASSERT_TRUE(Call(&Stub::ModelStatistics, request, &response).ok());
  const inference::ModelStatistics& statistics = response.model_stats(0);
  EXPECT_EQ(statistics.inference_count(), 1u);
  EXPECT_EQ(statistics.execution_count(), 1u);
  EXPECT_EQ(statistics.inference_stats().success().count(), 3u);
  EXPECT_EQ(statistics.inference_stats().cache_hit().count(), 2u);
  EXPECT_EQ(statistics.inference_stats().cache_miss().count(), 1u);
  EXPECT_EQ(statistics.inference_stats().compute_infer().count(), 1u);
  inference::ModelConfigRequest config_request;
  config_request.set_name("digits");
  inference::ModelConfigResponse config;
  ASSERT_TRUE(Call(&Stub::ModelConfig, config_request, &config).ok());
  EXPECT_TRUE(config.config().response_cache().enable());
}

TEST_F(InferenceServiceTest, RepositoryIndexListsStatesAndFilters) {
  auto unloaded = MakeModelVersion("digits", 2, 20);
  unloaded.set_state(v1::UNLOADED);
  server_.repository.versions.push_back(unloaded);
  inference::RepositoryIndexRequest request;
  inference::RepositoryIndexResponse response;
  ASSERT_TRUE(Call(&Stub::RepositoryIndex, request, &response).ok());
  ASSERT_EQ(response.models_size(), 2);
  EXPECT_EQ(response.models(0).state(), "READY");
  EXPECT_EQ(response.models(1).state(), "UNAVAILABLE");
  EXPECT_EQ(response.models(1).reason(), "unloaded");
  request.set_ready(true);
  ASSERT_TRUE(Call(&Stub::RepositoryIndex, request, &response).ok());
  EXPECT_EQ(response.models_size(), 1);
  request.set_repository_name("r");
  EXPECT_EQ(Call(&Stub::RepositoryIndex, request, &response).error_code(),
            grpc::UNIMPLEMENTED);
}

TEST_F(InferenceServiceTest, LoadAndUnloadReachTheRepository) {
  inference::RepositoryModelLoadRequest load;
  inference::RepositoryModelLoadResponse loaded;
  load.set_model_name("digits");
  EXPECT_TRUE(Call(&Stub::RepositoryModelLoad, load, &loaded).ok());
  EXPECT_THAT(server_.repository.loaded, ElementsAre("digits"));
  inference::RepositoryModelUnloadRequest unload;
  inference::RepositoryModelUnloadResponse unloaded;
  unload.set_model_name("digits");
  EXPECT_TRUE(Call(&Stub::RepositoryModelUnload, unload, &unloaded).ok());
  EXPECT_THAT(server_.repository.unloaded, ElementsAre("digits"));
  EXPECT_EQ(server_.repository.unload_scope, UnloadScope::kModel);
  auto& dependents = (*unload.mutable_parameters())["unload_dependents"];
  dependents.set_bool_param(true);
  EXPECT_TRUE(Call(&Stub::RepositoryModelUnload, unload, &unloaded).ok());
  EXPECT_EQ(server_.repository.unload_scope, UnloadScope::kWithSteps);
  dependents.set_string_param("yes");
  EXPECT_EQ(Call(&Stub::RepositoryModelUnload, unload, &unloaded).error_code(),
            grpc::INVALID_ARGUMENT);
  server_.repository.answer = absl::NotFoundError("no model 'cats'");
  const grpc::Status status = Call(&Stub::RepositoryModelLoad, load, &loaded);
  EXPECT_EQ(status.error_code(), grpc::NOT_FOUND);
  EXPECT_THAT(status.error_message(), HasSubstr("failed to load 'digits'"));
}

TEST_F(InferenceServiceTest, WhatIsNotOfferedSaysSo) {
  inference::SystemSharedMemoryRegisterResponse region;
  const grpc::Status status =
      Call(&Stub::SystemSharedMemoryRegister,
           inference::SystemSharedMemoryRegisterRequest(), &region);
  EXPECT_EQ(status.error_code(), grpc::UNIMPLEMENTED);
  EXPECT_THAT(status.error_message(),
              HasSubstr("Client shared memory is disabled"));
  inference::SystemSharedMemoryStatusResponse regions;
  EXPECT_EQ(Call(&Stub::SystemSharedMemoryStatus,
                 inference::SystemSharedMemoryStatusRequest(), &regions)
                .error_code(),
            grpc::UNIMPLEMENTED);
  inference::CudaSharedMemoryUnregisterResponse unregistered;
  EXPECT_EQ(Call(&Stub::CudaSharedMemoryUnregister,
                 inference::CudaSharedMemoryUnregisterRequest(), &unregistered)
                .error_code(),
            grpc::UNIMPLEMENTED);
  auto input = RawRequest({1, 2});
  (*input.mutable_inputs(0)->mutable_parameters())["shared_memory_region"]
      .set_string_param("r");
  ExpectError(input, grpc::UNIMPLEMENTED, "Client shared memory is disabled");
  auto output = RawRequest({1, 2});
  (*output.add_outputs()->mutable_parameters())["shared_memory_region"]
      .set_string_param("r");
  ExpectError(output, grpc::UNIMPLEMENTED, "Client shared memory is disabled");
  inference::TraceSettingResponse trace;
  EXPECT_EQ(Call(&Stub::TraceSetting, inference::TraceSettingRequest(), &trace)
                .error_code(),
            grpc::UNIMPLEMENTED);
}

TEST_F(InferenceServiceTest, LogSettingsReachTheLog) {
  inference::LogSettingsRequest request;
  inference::LogSettingsResponse response;
  ASSERT_TRUE(Call(&Stub::LogSettings, request, &response).ok());
  EXPECT_EQ(response.settings().at("log_verbose_level").uint32_param(), 0u);
  (*request.mutable_settings())["log_verbose_level"].set_uint32_param(1);
  ASSERT_TRUE(Call(&Stub::LogSettings, request, &response).ok());
  EXPECT_EQ(response.settings().at("log_verbose_level").uint32_param(), 1u);
  EXPECT_EQ(server_.log.Level(), LogLevel::kDebug);
  (*request.mutable_settings())["log_file"].set_string_param("/etc/passwd");
  EXPECT_EQ(Call(&Stub::LogSettings, request, &response).error_code(),
            grpc::UNIMPLEMENTED);
}

TEST_F(InferenceServiceTest, AnEnsembleAnswersAsAModelOfItsOwn) {
  ASSERT_TRUE(server_.serving.ensembles().Define(TwiceSpec()).ok());
  inference::ModelReadyRequest ready;
  ready.set_name("twice");
  inference::ModelReadyResponse is_ready;
  ASSERT_TRUE(Call(&Stub::ModelReady, ready, &is_ready).ok());
  EXPECT_TRUE(is_ready.ready());
  inference::ModelMetadataRequest metadata;
  metadata.set_name("twice");
  inference::ModelMetadataResponse described;
  ASSERT_TRUE(Call(&Stub::ModelMetadata, metadata, &described).ok());
  EXPECT_EQ(described.platform(), "ensemble");
  EXPECT_THAT(described.versions(), ElementsAre("1"));
  EXPECT_EQ(described.inputs(0).name(), "x");
  EXPECT_THAT(described.inputs(0).shape(), ElementsAre(-1, 2));
  inference::ModelConfigRequest config;
  config.set_name("twice");
  inference::ModelConfigResponse configured;
  ASSERT_TRUE(Call(&Stub::ModelConfig, config, &configured).ok());
  EXPECT_EQ(configured.config().platform(), "ensemble");
  EXPECT_EQ(configured.config().max_batch_size(), 4);
  EXPECT_TRUE(configured.config().instance_group().empty());
  const auto& scheduling = configured.config().ensemble_scheduling();
  ASSERT_EQ(scheduling.step_size(), 2);
  EXPECT_EQ(scheduling.step(0).model_name(), "digits");
  EXPECT_EQ(scheduling.step(0).model_version(), -1);
  EXPECT_EQ(scheduling.step(1).input_map().at("input"), "m");
  EXPECT_EQ(scheduling.max_inflight_requests(), 8u);
  inference::ModelStatisticsRequest counts;
  counts.set_name("twice");
  inference::ModelStatisticsResponse counted;
  ASSERT_TRUE(Call(&Stub::ModelStatistics, counts, &counted).ok());
  ASSERT_EQ(counted.model_stats_size(), 1);
  EXPECT_EQ(counted.model_stats(0).inference_count(), 0u);
}

}  // namespace
}  // namespace gpupool::server
