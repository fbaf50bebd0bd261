// The REST form of the inference protocol over real sockets, with a fake
// service behind it.
#include "server/http/rest_routes.h"

#include <grpcpp/grpcpp.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "inference/grpc_service.grpc.pb.h"
#include "nlohmann/json.hpp"
#include "server/auth/call_record.h"
#include "server/http/http_server.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

class FakeInference : public inference::GRPCInferenceService::Service {
 public:
  grpc::Status ModelConfig(grpc::ServerContext*,
                           const inference::ModelConfigRequest* request,
                           inference::ModelConfigResponse* response) override {
    response->mutable_config()->set_name(
        absl::StrCat(request->name(), " ", request->version()));
    response->mutable_config()->set_max_batch_size(8);
    return Answer();
  }

  // Keeps the header `authorization` of the caller.
  grpc::Status ModelStatistics(
      grpc::ServerContext* context,
      const inference::ModelStatisticsRequest* request,
      inference::ModelStatisticsResponse* response) override {
    const auto header = context->client_metadata().find("authorization");
    if (header != context->client_metadata().end()) {
      absl::MutexLock lock(&mutex);
      asked_by = std::string(header->second.data(), header->second.size());
    }
    auto* statistics = response->add_model_stats();
    statistics->set_name(absl::StrCat("of ", request->name()));
    statistics->set_version(request->version());
    statistics->set_inference_count(7);
    return Answer();
  }

  grpc::Status ModelMetadata(
      grpc::ServerContext*, const inference::ModelMetadataRequest* request,
      inference::ModelMetadataResponse* response) override {
    response->set_name(request->name());
    auto* input = response->add_inputs();
    input->set_name("input");
    input->set_datatype("UINT8");
    input->add_shape(-1);
    return Answer();
  }

  // Answers the bytes of the first input as UINT8.
  grpc::Status ModelInfer(grpc::ServerContext* context,
                          const inference::ModelInferRequest* request,
                          inference::ModelInferResponse* response) override {
    deadline = context->deadline();
    if (request->model_name() == "held") Hold(context);
    response->set_model_name(request->model_name());
    response->set_model_version("3");
    response->set_id(request->id());
    auto* output = response->add_outputs();
    output->set_name("output");
    output->set_datatype("UINT8");
    output->add_shape(request->raw_input_contents(0).size());
    response->add_raw_output_contents(request->raw_input_contents(0));
    absl::MutexLock lock(&mutex);
    infer = *request;
    return Answer();
  }

  grpc::Status RepositoryIndex(
      grpc::ServerContext*, const inference::RepositoryIndexRequest* request,
      inference::RepositoryIndexResponse* response) override {
    auto* model = response->add_models();
    model->set_name("digits");
    model->set_version("1");
    model->set_state(request->ready() ? "READY" : "LOADING");
    model->set_reason(request->repository_name());
    return Answer();
  }

  // Gives one response for each byte of the only input. Fails at byte 99.
  grpc::Status ModelStreamInfer(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<inference::ModelStreamInferResponse,
                               inference::ModelInferRequest>* stream) override {
    inference::ModelInferRequest request;
    if (!stream->Read(&request)) return grpc::Status::OK;
    if (request.model_name() == "held") Hold(context);
    for (const char byte : request.raw_input_contents(0)) {
      if (byte == 99) return grpc::Status(grpc::INVALID_ARGUMENT, "99 is bad");
      inference::ModelStreamInferResponse response;
      auto* answer = response.mutable_infer_response();
      answer->set_model_name(request.model_name());
      answer->set_model_version("3");
      auto* output = answer->add_outputs();
      output->set_name("output");
      output->set_datatype("UINT8");
      output->add_shape(1);
      answer->add_raw_output_contents(std::string(1, byte));
      if (!stream->Write(response)) return grpc::Status::CANCELLED;
    }
    return Answer();
  }

  grpc::Status RepositoryModelLoad(
      grpc::ServerContext* context,
      const inference::RepositoryModelLoadRequest* request,
      inference::RepositoryModelLoadResponse*) override {
    deadline = context->deadline();
    if (request->model_name() == "held") Hold(context);
    absl::MutexLock lock(&mutex);
    load = *request;
    return Answer();
  }

  grpc::Status RepositoryModelUnload(
      grpc::ServerContext*,
      const inference::RepositoryModelUnloadRequest* request,
      inference::RepositoryModelUnloadResponse*) override {
    absl::MutexLock lock(&mutex);
    unload = *request;
    return Answer();
  }

  // Answers a region of the requested name, whose key is who calls.
  grpc::Status SystemSharedMemoryStatus(
      grpc::ServerContext* context,
      const inference::SystemSharedMemoryStatusRequest* request,
      inference::SystemSharedMemoryStatusResponse* response) override {
    const auto& metadata = context->client_metadata();
    const auto header = metadata.find("authorization");
    auto& region = (*response->mutable_regions())[request->name()];
    if (header != metadata.end()) {
      region.set_key(std::string(header->second.data(), header->second.size()));
    }
    region.set_byte_size(metadata.count(kHttpPeerKey));
    return Answer();
  }

  grpc::Status SystemSharedMemoryRegister(
      grpc::ServerContext*,
      const inference::SystemSharedMemoryRegisterRequest* request,
      inference::SystemSharedMemoryRegisterResponse*) override {
    absl::MutexLock lock(&mutex);
    region = *request;
    return Answer();
  }

  grpc::Status SystemSharedMemoryUnregister(
      grpc::ServerContext*,
      const inference::SystemSharedMemoryUnregisterRequest* request,
      inference::SystemSharedMemoryUnregisterResponse*) override {
    absl::MutexLock lock(&mutex);
    unregistered = request->name();
    return Answer();
  }

  grpc::Status CudaSharedMemoryStatus(
      grpc::ServerContext*, const inference::CudaSharedMemoryStatusRequest*,
      inference::CudaSharedMemoryStatusResponse*) override {
    return Answer();
  }

  grpc::Status CudaSharedMemoryUnregister(
      grpc::ServerContext*,
      const inference::CudaSharedMemoryUnregisterRequest* request,
      inference::CudaSharedMemoryUnregisterResponse*) override {
    absl::MutexLock lock(&mutex);
    unregistered = "cuda " + request->name();
    return Answer();
  }

  // Answers the settings of the request and the state of log_error.
  grpc::Status LogSettings(grpc::ServerContext*,
                           const inference::LogSettingsRequest* request,
                           inference::LogSettingsResponse* response) override {
    auto& settings = *response->mutable_settings();
    settings["log_error"].set_bool_param(true);
    for (const auto& [name, value] : request->settings()) {
      settings[name].set_bool_param(value.bool_param());
    }
    return Answer();
  }

  // Answers the settings of the request and the model.
  grpc::Status TraceSetting(
      grpc::ServerContext*, const inference::TraceSettingRequest* request,
      inference::TraceSettingResponse* response) override {
    auto& settings = *response->mutable_settings();
    settings["model"].add_value(request->model_name());
    for (const auto& [name, value] : request->settings()) {
      *settings[name].mutable_value() = value.value();
    }
    return Answer();
  }

  std::atomic<grpc::StatusCode> code{grpc::OK};
  std::atomic<std::chrono::system_clock::time_point> deadline{
      std::chrono::system_clock::time_point()};
  std::atomic<int> holding{0};
  absl::Notification go_on;
  absl::Mutex mutex;
  inference::ModelInferRequest infer;
  std::string asked_by;
  inference::RepositoryModelLoadRequest load;
  inference::RepositoryModelUnloadRequest unload;
  inference::SystemSharedMemoryRegisterRequest region;
  std::string unregistered;

 private:
  grpc::Status Answer() const { return grpc::Status(code, "why"); }

  void Hold(grpc::ServerContext* context) {
    ++holding;
    WaitUntil(
        [&] { return context->IsCancelled() || go_on.HasBeenNotified(); });
  }
};

class RestRoutesTest : public ::testing::Test {
 protected:
  static constexpr size_t kMostBody = 64 << 10;

  RestRoutesTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    grpc_ = builder.BuildAndStart();
    http_ = *HttpServer::Start(
        {.max_body_bytes = 1024, .rest_calls = 1, .rest_body_bytes = kMostBody},
        grpc_->InProcessChannel({}));
    port_ = http_->port();
  }

  ~RestRoutesTest() override {
    if (!service_.go_on.HasBeenNotified()) service_.go_on.Notify();
  }

  std::unique_ptr<httplib::Client> NewClient() const {
    auto client = std::make_unique<httplib::Client>("127.0.0.1", port_);
    client->set_read_timeout(absl::ToInt64Seconds(kPatience));
    return client;
  }

  httplib::Result Get(const std::string& path) const {
    return NewClient()->Get(path);
  }

  httplib::Result Post(const std::string& path, const std::string& body,
                       const httplib::Headers& headers = {}) const {
    return NewClient()->Post(path, headers, body, "application/json");
  }

  static void ExpectAnswer(const httplib::Result& result, int status,
                           const std::string& body) {
    ASSERT_TRUE(result) << httplib::to_string(result.error());
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_EQ(result->body, body);
    EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
  }

  // Expects {"error":text} of this status, with these words.
  static void ExpectRefused(const httplib::Result& result, int status,
                            const std::string& words) {
    ASSERT_TRUE(result) << httplib::to_string(result.error());
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
    const auto json = nlohmann::json::parse(result->body);
    EXPECT_EQ(json.size(), 1u);
    EXPECT_THAT(json["error"].get<std::string>(), HasSubstr(words));
  }

  FakeInference service_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<HttpServer> http_;
  int port_ = 0;
};

constexpr char kLoad[] = "/v2/repository/models/digits/load";
constexpr char kUnload[] = "/v2/repository/models/digits/unload";
constexpr char kIndex[] = "/v2/repository/index";

TEST_F(RestRoutesTest, AConfigurationIsOfTheNamedVersion) {
  for (const auto& [path, name] :
       {std::pair("/v2/models/digits/config", "digits "),
        std::pair("/v2/models/digits/versions/3/config", "digits 3")}) {
    const auto result = Get(path);
    ASSERT_TRUE(result) << path;
    EXPECT_EQ(result->status, 200);
    const auto json = nlohmann::json::parse(result->body);
    EXPECT_EQ(json["name"], name);
    EXPECT_EQ(json["max_batch_size"], 8);
  }
}

TEST_F(RestRoutesTest, RegionsAreRegisteredAndUnregistered) {
  constexpr char kSystem[] = "/v2/systemsharedmemory";
  const std::string one = absl::StrCat(kSystem, "/region/r");
  ExpectAnswer(
      Post(one + "/register", R"({"key":"/a","offset":4,"byte_size":8})"), 200,
      "{}");
  {
    absl::MutexLock lock(&service_.mutex);
    EXPECT_EQ(service_.region.name(), "r");
    EXPECT_EQ(service_.region.key(), "/a");
    EXPECT_EQ(service_.region.offset(), 4u);
    EXPECT_EQ(service_.region.byte_size(), 8u);
  }
  ExpectRefused(Post(one + "/register", "{}"), 400, "'key'");
  for (const auto& [path, name] :
       {std::pair(one, "r"), std::pair(std::string(kSystem), ""),
        std::pair(std::string("/v2/cudasharedmemory"), "cuda "),
        std::pair(std::string("/v2/cudasharedmemory/region/s"), "cuda s")}) {
    ExpectAnswer(Post(path + "/unregister", ""), 200, "{}");
    absl::MutexLock lock(&service_.mutex);
    EXPECT_EQ(service_.unregistered, name);
  }
  ExpectAnswer(Get("/v2/cudasharedmemory/status"), 200, "[]");
  const auto cuda = Post("/v2/cudasharedmemory/region/r/register", "{}");
  ASSERT_TRUE(cuda);
  EXPECT_EQ(cuda->status, 501) << cuda->body;
}

TEST_F(RestRoutesTest, TheStatusOfRegionsDependsOnWhoCalls) {
  const auto client = NewClient();
  for (const auto& [path, name] :
       {std::pair("/v2/systemsharedmemory/status", ""),
        std::pair("/v2/systemsharedmemory/region/r/status", "r")}) {
    const auto result =
        client->Get(path, httplib::Headers{{"Authorization", "Bearer x"}});
    ExpectAnswer(result, 200,
                 absl::StrCat(R"([{"name":")", name,
                              R"(","key":"Bearer x","offset":0,)"
                              R"("byte_size":1}])"));
  }
}

TEST_F(RestRoutesTest, TheServiceLearnsWhoSendsAGet) {
  const auto client = NewClient();
  for (const char* path : {"/v2/models/stats", "/v2/models/digits/stats"}) {
    const std::string header = absl::StrCat("Bearer of ", path);
    const auto result =
        client->Get(path, httplib::Headers{{"Authorization", header}});
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, 200) << result->body;
    absl::MutexLock lock(&service_.mutex);
    EXPECT_EQ(service_.asked_by, header);
  }
}

TEST_F(RestRoutesTest, TheSharesOfTracesAreReadAndChanged) {
  ExpectAnswer(Get("/v2/trace/setting"), 200, R"({"model":""})");
  ExpectAnswer(Get("/v2/models/digits/trace/setting"), 200,
               R"({"model":"digits"})");
  ExpectAnswer(Post("/v2/trace/setting", R"({"trace_level":["OFF"]})"), 200,
               R"({"model":"","trace_level":["OFF"]})");
  ExpectAnswer(Post("/v2/models/digits/trace/setting", R"({"trace_rate":"7"})"),
               200, R"({"model":"digits","trace_rate":"7"})");
  ExpectRefused(Post("/v2/trace/setting", R"({"trace_rate":null})"), 400,
                "trace setting 'trace_rate'");
  service_.code = grpc::UNIMPLEMENTED;
  ExpectRefused(Post("/v2/trace/setting", "{}"), 501, "why");
  ExpectRefused(Get("/v2/trace/setting"), 501, "why");
}

TEST_F(RestRoutesTest, TheLogIsReadAndChanged) {
  ExpectAnswer(Get("/v2/logging"), 200, R"({"log_error":true})");
  ExpectAnswer(Post("/v2/logging", R"({"log_info":false})"), 200,
               R"({"log_error":true,"log_info":false})");
  ExpectAnswer(Post("/v2/logging", ""), 200, R"({"log_error":true})");
  ExpectRefused(Post("/v2/logging", R"({"log_info":null})"), 400,
                "log setting 'log_info'");
  ExpectRefused(Post("/v2/logging", "{}", {{"Origin", "http://evil.example"}}),
                403, "evil.example");
  service_.code = grpc::UNIMPLEMENTED;
  ExpectRefused(Post("/v2/logging", "{}"), 501, "why");
  ExpectRefused(Get("/v2/logging"), 501, "why");
}

TEST_F(RestRoutesTest, StatisticsAreOfAModelAVersionOrAll) {
  for (const auto& [path, name, version] :
       {std::tuple("/v2/models/stats", "of ", ""),
        std::tuple("/v2/models/digits/stats", "of digits", ""),
        std::tuple("/v2/models/digits/versions/2/stats", "of digits", "2")}) {
    const auto result = Get(path);
    ASSERT_TRUE(result) << path;
    const auto json = nlohmann::json::parse(result->body);
    EXPECT_EQ(json["model_stats"][0]["name"], name) << path;
    EXPECT_EQ(json["model_stats"][0]["version"], version) << path;
    EXPECT_EQ(json["model_stats"][0]["inference_count"], 7) << path;
  }
}

TEST_F(RestRoutesTest, TheIndexIsAList) {
  ExpectAnswer(
      Post(kIndex, R"({"ready":true})"), 200,
      R"([{"name":"digits","version":"1","state":"READY","reason":""}])");
  ExpectAnswer(
      Post("/v2/repository/mine/index", ""), 200,
      R"([{"name":"digits","version":"1","state":"LOADING","reason":"mine"}])");
  ExpectRefused(Post(kIndex, R"({"ready":"yes"})"), 400, "'ready'");
}

TEST_F(RestRoutesTest, ModelsAreLoadedAndUnloaded) {
  ExpectAnswer(Post(kLoad, ""), 200, "{}");
  EXPECT_EQ(service_.load.model_name(), "digits");
  EXPECT_EQ(service_.load.repository_name(), "");
  ExpectAnswer(Post(kUnload, R"({"parameters":{"unload_dependents":true}})"),
               200, "{}");
  EXPECT_EQ(service_.unload.model_name(), "digits");
  EXPECT_TRUE(
      service_.unload.parameters().at("unload_dependents").bool_param());
  ExpectAnswer(Post("/v2/repository/mine/models/digits/load", "{}"), 200, "{}");
  EXPECT_EQ(service_.load.repository_name(), "mine");
  ExpectRefused(Post(kLoad, R"({"parameters":{"config":null}})"), 400,
                "parameter 'config'");
  ExpectRefused(Post(kLoad, "{"), 400, "no JSON at byte");
}

constexpr char kInfer[] = "/v2/models/digits/infer";
constexpr char kInput[] =
    R"({"id":"7","inputs":[{"name":"input","datatype":"UINT8","shape":[2],)"
    R"("data":[65,66]}]})";
// The same input as two bytes of binary data.
constexpr char kBinaryInput[] =
    R"({"id":"7","inputs":[{"name":"input","datatype":"UINT8","shape":[2],)"
    R"("parameters":{"binary_data_size":2}}],)"
    R"("outputs":[{"name":"output","parameters":{"binary_data":true}}]})";
constexpr char kLengthHeader[] = "Inference-Header-Content-Length";

TEST_F(RestRoutesTest, AnInferenceAnswersInJson) {
  ExpectAnswer(Post(kInfer, kInput), 200,
               R"({"model_name":"digits","model_version":"3","id":"7",)"
               R"("outputs":[{"name":"output","datatype":"UINT8","shape":[2],)"
               R"("data":[65,66]}]})");
  EXPECT_EQ(service_.infer.model_name(), "digits");
  EXPECT_EQ(service_.infer.model_version(), "");
  EXPECT_EQ(service_.infer.raw_input_contents(0), "AB");
  EXPECT_EQ(Post("/v2/models/digits/versions/5/infer", kInput)->status, 200);
  EXPECT_EQ(service_.infer.model_version(), "5");
}

TEST_F(RestRoutesTest, AGenerationAnswersItsOnlyResponseByName) {
  const std::string path = "/v2/models/m/generate";
  ExpectAnswer(Post(path, R"({"input": 7})"), 200,
               R"({"model_name":"m","model_version":"3","output":7})");
  for (const std::string body : {R"({"input": []})", R"({"input": [7, 8]})"}) {
    ExpectRefused(Post(path, body), 400, "exactly 1 response");
  }
  ExpectRefused(Post(path, R"({"input": [99]})"), 400, "99 is bad");
  ExpectRefused(Post(path, R"({"input": "seven"})"), 400, "input 'input'");
}

TEST_F(RestRoutesTest, AStreamOfAGenerationIsServerSentEvents) {
  const std::string path = "/v2/models/m/versions/3/generate_stream";
  const auto answer = Post(path, R"({"input": [7, 8, 99, 1]})");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->get_header_value("Content-Type"), "text/event-stream");
  EXPECT_EQ(answer->body,
            "data: {\"model_name\":\"m\",\"model_version\":\"3\","
            "\"output\":7}\n\n"
            "data: {\"model_name\":\"m\",\"model_version\":\"3\","
            "\"output\":8}\n\n"
            "data: {\"error\":\"99 is bad\"}\n\n");
  const auto nothing = Post(path, R"({"input": []})");
  ASSERT_TRUE(nothing);
  EXPECT_EQ(nothing->status, 200);
  EXPECT_EQ(nothing->body, "");
  // An error before the first response has its status.
  ExpectRefused(Post(path, R"({"input": [99]})"), 400, "99 is bad");
}

TEST_F(RestRoutesTest, BinaryDataFollowTheJsonOnBothWays) {
  const std::string json = kBinaryInput;
  const auto result =
      Post(kInfer, json + "AB", {{kLengthHeader, std::to_string(json.size())}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200) << result->body;
  EXPECT_EQ(result->get_header_value("Content-Type"),
            "application/octet-stream");
  EXPECT_EQ(service_.infer.raw_input_contents(0), "AB");
  const size_t length = std::stoul(result->get_header_value(kLengthHeader));
  ASSERT_EQ(result->body.size(), length + 2);
  EXPECT_EQ(result->body.substr(length), "AB");
  const auto answer = nlohmann::json::parse(result->body.substr(0, length));
  EXPECT_EQ(answer["outputs"][0]["parameters"]["binary_data_size"], 2);
  EXPECT_FALSE(answer["outputs"][0].contains("data"));
}

TEST_F(RestRoutesTest, TheBodyAloneMayBeTheOnlyInput) {
  const auto result = Post(kInfer, "ABC", {{kLengthHeader, "0"}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200) << result->body;
  EXPECT_EQ(service_.infer.inputs(0).name(), "input");
  EXPECT_EQ(service_.infer.inputs(0).shape(0), 3);
  const size_t length = std::stoul(result->get_header_value(kLengthHeader));
  EXPECT_EQ(result->body.substr(length), "ABC");
  service_.code = grpc::NOT_FOUND;
  ExpectRefused(Post(kInfer, "ABC", {{kLengthHeader, "0"}}), 404, "why");
}

TEST_F(RestRoutesTest, BadLengthsOfTheJsonAreRefused) {
  const std::string json = kBinaryInput;
  const std::string length = std::to_string(json.size());
  ExpectRefused(Post(kInfer, json + "AB"), 400, "no JSON at byte");
  ExpectRefused(Post(kInfer, json + "A", {{kLengthHeader, length}}), 400,
                "binary_data_size of 2");
  ExpectRefused(Post(kInfer, json + "ABC", {{kLengthHeader, length}}), 400,
                "1 bytes of binary data more");
  for (const char* bad : {"-1", "x", "99999999999999999999"}) {
    ExpectRefused(Post(kInfer, json + "AB", {{kLengthHeader, bad}}), 400,
                  kLengthHeader);
  }
  ExpectRefused(Post(kInfer, json + "AB", {{kLengthHeader, "9999"}}), 400,
                "is 9999, but the body has");
  ExpectRefused(Post(kInfer, json + "AB",
                     {{kLengthHeader, length}, {kLengthHeader, length}}),
                400, "2 times");
  EXPECT_EQ(service_.infer.model_name(), "");
}

TEST_F(RestRoutesTest, AnInferenceMayHaveAsManyBytesAsTheLimit) {
  const auto post = [this](size_t elements) {
    const std::string json = absl::StrCat(
        R"({"inputs":[{"name":"input","datatype":"UINT8","shape":[)", elements,
        R"(],"parameters":{"binary_data_size":)", elements, "}}]}");
    return Post(kInfer, json + std::string(elements, 'x'),
                {{kLengthHeader, std::to_string(json.size())}});
  };
  EXPECT_EQ(post(kMostBody - 1024)->status, 200);
  ExpectRefused(post(kMostBody), 413, "65536 bytes");
  // Texts of two bytes for elements of eight.
  std::string data = "0";
  for (size_t i = 1; i < kMostBody / 4; ++i) data += ",0";
  ExpectRefused(
      Post(kInfer,
           absl::StrCat(
               R"({"inputs":[{"name":"input","datatype":"INT64","shape":[)",
               kMostBody / 4, R"(],"data":[)", data, "]}]}")),
      413, "send fewer rows");
}

TEST_F(RestRoutesTest, AnInferenceTakesACompressedBody) {
  auto client = NewClient();
  client->set_compress(true);
  const auto result = client->Post(kInfer, kInput, "application/json");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200) << result->body;
  EXPECT_EQ(service_.infer.raw_input_contents(0), "AB");
}

TEST_F(RestRoutesTest, AnEncodingThatIsUnknownOrDamagedIsRefused) {
  ExpectRefused(Post(kInfer, kInput, {{"Content-Encoding", "zstd"}}), 415,
                "zstd");
  ExpectRefused(Post(kInfer, kInput, {{"Content-Encoding", "gzip"}}), 400,
                "damaged");
}

TEST_F(RestRoutesTest, ManyInferencesTakeOneConnection) {
  auto client = NewClient();
  client->set_keep_alive(true);
  for (int i = 0; i < 20; ++i) {
    ExpectAnswer(client->Post(kIndex, "", "application/json"), 200,
                 R"([{"name":"digits","version":"1","state":"LOADING",)"
                 R"("reason":""}])");
    EXPECT_EQ(client->Post(kInfer, kInput, "application/json")->status, 200);
  }
}

TEST_F(RestRoutesTest, AnRpcThatFailsIsItsHttpStatus) {
  const std::pair<grpc::StatusCode, int> rows[] = {
      {grpc::INVALID_ARGUMENT, 400}, {grpc::NOT_FOUND, 404},
      {grpc::UNAVAILABLE, 503},      {grpc::UNIMPLEMENTED, 501},
      {grpc::INTERNAL, 500},         {grpc::RESOURCE_EXHAUSTED, 429},
      {grpc::DEADLINE_EXCEEDED, 504}};
  for (const auto& [code, status] : rows) {
    service_.code = code;
    const std::string error = R"({"error":"why"})";
    ExpectAnswer(Get("/v2/models/digits/config"), status, error);
    ExpectAnswer(Get("/v2/models/digits/stats"), status, error);
    ExpectAnswer(Post(kIndex, ""), status, error);
    ExpectAnswer(Post(kInfer, kInput), status, error);
    ExpectAnswer(Post(kLoad, ""), status, error);
    ExpectAnswer(Post(kUnload, ""), status, error);
  }
}

TEST_F(RestRoutesTest, PagesOfOtherOriginsChangeNothing) {
  ExpectRefused(Post(kUnload, "", {{"Origin", "http://evil.example"}}), 403,
                "http://evil.example");
  ExpectRefused(Post(kInfer, kInput, {{"Origin", "null"}}), 403, "null");
  EXPECT_EQ(service_.unload.model_name(), "");
  const std::string own = absl::StrCat("http://127.0.0.1:", port_);
  ExpectAnswer(Post(kUnload, "", {{"Origin", own}}), 200, "{}");
}

TEST_F(RestRoutesTest, ABodyMayHaveAnyType) {
  const auto form = NewClient()->Post(kIndex, R"({"ready":true})",
                                      "application/x-www-form-urlencoded");
  ASSERT_TRUE(form);
  EXPECT_EQ(form->status, 200) << form->body;
}

TEST_F(RestRoutesTest, BodiesBeyondTheLimitAreRefused) {
  ExpectAnswer(Post(kUnload, "{}" + std::string(kMostBody - 2, ' ')), 200,
               "{}");
  ExpectRefused(Post(kUnload, "{}" + std::string(kMostBody - 1, ' ')), 413,
                "65536 bytes");
}

TEST_F(RestRoutesTest, CallsEndAfterAMinuteUnlessAHeaderSaysOtherwise) {
  const absl::Time before = absl::Now();
  ExpectAnswer(Post(kLoad, ""), 200, "{}");
  EXPECT_GT(absl::FromChrono(service_.deadline.load()),
            before + absl::Seconds(59));
  ExpectAnswer(Post(kLoad, "", {{"X-Timeout-Ms", "600000"}}), 200, "{}");
  EXPECT_GT(absl::FromChrono(service_.deadline.load()),
            before + absl::Minutes(9));
  ExpectRefused(Post(kLoad, "", {{"X-Timeout-Ms", "0"}}), 400, "X-Timeout-Ms");
  ExpectRefused(
      Post(kLoad, "", {{"X-Timeout-Ms", "600000"}, {"X-Timeout-Ms", "1"}}), 400,
      "X-Timeout-Ms is there 2 times");
  ExpectRefused(
      Post("/v2/repository/models/held/load", "", {{"X-Timeout-Ms", "1"}}), 504,
      "");
}

TEST_F(RestRoutesTest, PostsBeyondTheMostAreRefusedAndProbesAreNot) {
  std::thread held([&] {
    ExpectAnswer(Post("/v2/repository/models/held/load", ""), 200, "{}");
  });
  EXPECT_TRUE(WaitUntil([&] { return service_.holding > 0; }));
  ExpectRefused(Post(kUnload, std::string(kMostBody, ' ')), 503,
                "1 POSTs of /v2");
  EXPECT_EQ(Get("/v2/models/stats")->status, 200);
  service_.go_on.Notify();
  held.join();
  ExpectAnswer(Post(kUnload, ""), 200, "{}");
}

TEST_F(RestRoutesTest, BodiesThatDoNotFitBesideOthersAreRefused) {
  http_.reset();
  http_ = *HttpServer::Start(
      {.max_body_bytes = 1024, .rest_calls = 8, .rest_body_bytes = kMostBody},
      grpc_->InProcessChannel({}));
  port_ = http_->port();
  // Four of the largest fit.
  const std::string body = "{}" + std::string(kMostBody - 2, ' ');
  std::vector<std::thread> held;
  for (int i = 0; i < 4; ++i) {
    held.emplace_back([&] {
      ExpectAnswer(Post("/v2/repository/models/held/load", body), 200, "{}");
    });
  }
  EXPECT_TRUE(WaitUntil([&] { return service_.holding == 4; }));
  ExpectRefused(Post(kUnload, "{}"), 429, "262144 bytes at a time");
  ExpectAnswer(Post(kUnload, ""), 200, "{}");
  service_.go_on.Notify();
  for (std::thread& thread : held) thread.join();
  ExpectAnswer(Post(kUnload, "{}"), 200, "{}");
}

TEST_F(RestRoutesTest, APostInFlightIsAnsweredWhenTheServerEnds) {
  http_.reset();
  http_ =
      *HttpServer::Start({.calls_end = kPatience}, grpc_->InProcessChannel({}));
  port_ = http_->port();
  std::thread held([&] {
    ExpectAnswer(Post("/v2/repository/models/held/load", ""), 200, "{}");
  });
  EXPECT_TRUE(WaitUntil([&] { return service_.holding > 0; }));
  std::thread end([&] { http_.reset(); });
  EXPECT_TRUE(WaitUntil([&] { return !Get("/v2/health/live"); }));
  service_.go_on.Notify();
  held.join();
  end.join();
}

TEST_F(RestRoutesTest, APostThatTakesTooLongEndsWithTheServer) {
  std::thread held([&] {
    ExpectRefused(Post("/v2/repository/models/held/load", ""), 503,
                  "shutting down");
  });
  EXPECT_TRUE(WaitUntil([&] { return service_.holding > 0; }));
  http_.reset();
  held.join();
}

}  // namespace
}  // namespace gpupool::server
