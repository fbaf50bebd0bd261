// Every rpc as JSON, over real sockets, with a fake JobService behind it.
#include "server/http/json_gateway.h"

#include <grpcpp/grpcpp.h>
#include <httplib.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gpupool/v1/job.grpc.pb.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/http/http_server.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;
using TimePoint = std::chrono::system_clock::time_point;

constexpr char kGetJob[] = "/api/gpupool.v1.JobService/GetJob";
constexpr char kWatchJob[] = "/api/gpupool.v1.JobService/WatchJob";
// Jobs with a behaviour of their own.
constexpr int kHeld = 1;        // waits for `go_on` or until it is cancelled
constexpr int kFailsLater = 2;  // its stream fails after one message

class FakeJobs : public v1::JobService::Service {
 public:
  grpc::Status GetJob(grpc::ServerContext* context,
                      const v1::GetJobRequest* request,
                      v1::Job* response) override {
    deadline = context->deadline();
    if (request->id() == kHeld) Hold(context);
    response->set_id(request->id());
    response->set_state(v1::QUEUED);
    return grpc::Status(code, "why");
  }

  grpc::Status ListJobs(grpc::ServerContext*,
                        const v1::ListJobsRequest* request,
                        v1::ListJobsResponse* response) override {
    response->set_next_page_token(request->tenant());
    return grpc::Status::OK;
  }

  // Streams the events 1, 2, 3.
  grpc::Status WatchJob(grpc::ServerContext* context,
                        const v1::WatchJobRequest* request,
                        grpc::ServerWriter<v1::JobEvent>* writer) override {
    deadline = context->deadline();
    if (code != grpc::OK) return {code, "why"};
    v1::JobEvent event;
    for (int sequence = 1; sequence <= 3; ++sequence) {
      event.set_sequence(sequence);
      if (!writer->Write(event)) break;
      if (sequence == 1 && request->id() == kHeld) Hold(context);
      if (request->id() == kFailsLater) return {grpc::DATA_LOSS, "why"};
    }
    return grpc::Status::OK;
  }

  std::atomic<grpc::StatusCode> code{grpc::OK};
  std::atomic<TimePoint> deadline{TimePoint()};
  absl::Notification go_on;
  std::atomic<bool> holds{false};
  std::atomic<bool> cancelled{false};

 private:
  void Hold(grpc::ServerContext* context) {
    holds = true;
    WaitUntil(
        [&] { return context->IsCancelled() || go_on.HasBeenNotified(); });
    if (context->IsCancelled()) cancelled = true;
  }
};

class JsonGatewayTest : public ::testing::Test {
 protected:
  JsonGatewayTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&jobs_);
    grpc_ = builder.BuildAndStart();
    http_ = *HttpServer::Start({.max_body_bytes = 1024,
                                .api_calls = 1,
                                .api_streams = 1,
                                .stream_fails_within = absl::Minutes(1)},
                               grpc_->InProcessChannel({}));
    port_ = http_->port();
  }

  ~JsonGatewayTest() override {
    if (!jobs_.go_on.HasBeenNotified()) jobs_.go_on.Notify();
  }

  std::unique_ptr<httplib::Client> NewClient() const {
    auto client = std::make_unique<httplib::Client>("127.0.0.1", port_);
    client->set_read_timeout(absl::ToInt64Seconds(kPatience));
    return client;
  }

  httplib::Result Post(const std::string& path, const std::string& body,
                       const httplib::Headers& headers = {},
                       const std::string& type = "application/json") const {
    return NewClient()->Post(path, headers, body, type);
  }

  // Expects an error of this status, code and part of its message.
  static void ExpectError(const httplib::Result& result, int status,
                          const std::string& code, const std::string& words) {
    ASSERT_TRUE(result) << httplib::to_string(result.error());
    EXPECT_EQ(result->status, status) << result->body;
    EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
    const Json json = Json::parse(result->body);
    EXPECT_EQ(json["code"], code);
    EXPECT_THAT(json["message"].get<std::string>(), HasSubstr(words));
  }

  // Posts to WatchJob and gives each chunk that comes to `receive`, which
  // returns false to go away.
  httplib::Result Watch(int job,
                        const std::function<bool(std::string)>& receive) const {
    httplib::Request request;
    request.method = "POST";
    request.path = kWatchJob;
    request.body = absl::StrCat("{\"id\":", job, "}");
    request.set_header("Content-Type", "application/json");
    request.content_receiver = [&](const char* data, size_t size, uint64_t,
                                   uint64_t) {
      return receive(std::string(data, size));
    };
    return NewClient()->send(request);
  }

  FakeJobs jobs_;
  std::unique_ptr<grpc::Server> grpc_;
  std::unique_ptr<HttpServer> http_;
  int port_ = 0;
};

// A stream of the held job on a thread of its own.
class HeldStream {
 public:
  template <typename Watch>
  explicit HeldStream(const Watch& watch)
      : thread_([this, watch] {
          watch(kHeld, [this](const std::string& chunk) {
            text_ += chunk;
            if (!arrived_.HasBeenNotified()) arrived_.Notify();
            return true;
          });
        }) {
    arrived_.WaitForNotification();
  }

  ~HeldStream() {
    if (thread_.joinable()) thread_.join();
  }

  // Waits for the end of the stream and returns all of it.
  std::string Text() {
    thread_.join();
    return text_;
  }

 private:
  std::string text_;
  absl::Notification arrived_;
  std::thread thread_;
};

TEST_F(JsonGatewayTest, AUnaryMethodAnswersOneObject) {
  const auto result = Post(kGetJob, R"({"id":"7"})");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200);
  EXPECT_EQ(result->get_header_value("Content-Type"), "application/json");
  EXPECT_EQ(result->get_header_value("Cache-Control"), "no-store");
  const Json json = Json::parse(result->body);
  EXPECT_EQ(json["id"], "7");
  EXPECT_EQ(json["state"], "QUEUED");
  EXPECT_EQ(json["waiting_reason"], "");
}

TEST_F(JsonGatewayTest, ABodyMayBeEmptyOrMissing) {
  const std::string path = "/api/gpupool.v1.JobService/ListJobs";
  for (const char* body : {"", "{}", R"({"tenant":""})"}) {
    const auto result = Post(path, body);
    ASSERT_TRUE(result) << body;
    EXPECT_EQ(result->status, 200) << result->body;
    EXPECT_EQ(Json::parse(result->body)["next_page_token"], "") << body;
  }
}

TEST_F(JsonGatewayTest, EveryCodeIsAnHttpStatus) {
  const std::tuple<grpc::StatusCode, int, const char*> rows[] = {
      {grpc::CANCELLED, 499, "CANCELLED"},
      {grpc::UNKNOWN, 500, "UNKNOWN"},
      {grpc::INVALID_ARGUMENT, 400, "INVALID_ARGUMENT"},
      {grpc::DEADLINE_EXCEEDED, 504, "DEADLINE_EXCEEDED"},
      {grpc::NOT_FOUND, 404, "NOT_FOUND"},
      {grpc::ALREADY_EXISTS, 409, "ALREADY_EXISTS"},
      {grpc::PERMISSION_DENIED, 403, "PERMISSION_DENIED"},
      {grpc::RESOURCE_EXHAUSTED, 429, "RESOURCE_EXHAUSTED"},
      {grpc::FAILED_PRECONDITION, 400, "FAILED_PRECONDITION"},
      {grpc::ABORTED, 409, "ABORTED"},
      {grpc::OUT_OF_RANGE, 400, "OUT_OF_RANGE"},
      {grpc::UNIMPLEMENTED, 501, "UNIMPLEMENTED"},
      {grpc::INTERNAL, 500, "INTERNAL"},
      {grpc::UNAVAILABLE, 503, "UNAVAILABLE"},
      {grpc::DATA_LOSS, 500, "DATA_LOSS"},
      {grpc::UNAUTHENTICATED, 401, "UNAUTHENTICATED"}};
  for (const auto& [code, status, name] : rows) {
    jobs_.code = code;
    ExpectError(Post(kGetJob, "{}"), status, name, "why");
    ExpectError(Post(kWatchJob, "{}"), status, name, "why");
  }
}

TEST_F(JsonGatewayTest, AServiceThatTheServerDoesNotHaveIsUnimplemented) {
  ExpectError(Post("/api/gpupool.v1.AdminService/GetServerInfo", "{}"), 501,
              "UNIMPLEMENTED", "");
}

TEST_F(JsonGatewayTest, BadJsonIsAnsweredWithTheWordsOfTheParser) {
  ExpectError(Post(kGetJob, R"({"idd":7})"), 400, "INVALID_ARGUMENT", "idd");
  ExpectError(Post(kGetJob, "{"), 400, "INVALID_ARGUMENT",
              "gpupool.v1.GetJobRequest");
}

TEST_F(JsonGatewayTest, UnknownNamesAreAnsweredWithWhatExists) {
  ExpectError(Post("/api/gpupool.v1.JobService/Nope", "{}"), 404, "NOT_FOUND",
              "SubmitJob");
  ExpectError(Post("/api/gpupool.v1.Nope/GetJob", "{}"), 404, "NOT_FOUND",
              "gpupool.v1.JobService");
  for (const char* path : {"/api", "/api/", "/api/x", "/api/x/y/z"}) {
    ExpectError(Post(path, "{}"), 404, "NOT_FOUND", "GET /api lists them");
  }
}

TEST_F(JsonGatewayTest, GetListsMethodsAndCallsNone) {
  for (const char* path : {"/api", "/api/"}) {
    const auto list = NewClient()->Get(path);
    ASSERT_TRUE(list);
    EXPECT_EQ(list->status, 200);
    EXPECT_THAT(list->body, HasSubstr(kWatchJob));
  }
}

TEST_F(JsonGatewayTest, MethodsOfTheApiAreCalledByPostOnly) {
  const auto expect_post = [](const httplib::Result& result) {
    ExpectError(result, 405, "UNIMPLEMENTED", "its methods are POST");
    EXPECT_EQ(result->get_header_value("Allow"), "POST");
  };
  expect_post(NewClient()->Get(kGetJob));
  expect_post(NewClient()->Put(kGetJob, "{}", "text/plain"));
  expect_post(NewClient()->Delete(kGetJob));
}

TEST_F(JsonGatewayTest, StreamsOfRequestsAreRefusedWithTheCallToUse) {
  ExpectError(Post("/api/gpupool.v1.DatasetService/UploadDataset", "{}"), 501,
              "UNIMPLEMENTED",
              "/gpupool.v1.DatasetService/UploadDataset by gRPC");
}

TEST_F(JsonGatewayTest, OtherTypesOfContentAreRefused) {
  for (const char* type : {"text/plain", "application/x-www-form-urlencoded",
                           "multipart/form-data; boundary=x"}) {
    ExpectError(Post(kGetJob, "{}", {}, type), 415, "INVALID_ARGUMENT",
                "application/json");
  }
  EXPECT_EQ(Post(kGetJob, "{}", {}, "application/json; charset=utf-8")->status,
            200);
}

TEST_F(JsonGatewayTest, PagesOfOtherOriginsAreRefused) {
  ExpectError(Post(kGetJob, "{}", {{"Origin", "http://evil.example"}}), 403,
              "PERMISSION_DENIED", "http://evil.example");
  // Its own name points to this machine.
  const std::string host = absl::StrCat("evil.example:", port_);
  ExpectError(
      Post(kGetJob, "{}", {{"Origin", "http://" + host}, {"Host", host}}), 403,
      "PERMISSION_DENIED", "use localhost");
  const std::string own = absl::StrCat("http://127.0.0.1:", port_);
  EXPECT_EQ(Post(kGetJob, "{}", {{"Origin", own}})->status, 200);
}

TEST_F(JsonGatewayTest, LargeBodiesAreRefused) {
  const std::string large(4000, ' ');
  ExpectError(Post(kGetJob, large), 413, "RESOURCE_EXHAUSTED", "1024 bytes");
  const auto chunked = NewClient()->Post(
      kGetJob,
      [&](size_t, httplib::DataSink& sink) {
        sink.write(large.data(), large.size());
        sink.done();
        return true;
      },
      "application/json");
  ExpectError(chunked, 413, "RESOURCE_EXHAUSTED", "1024 bytes");
}

TEST_F(JsonGatewayTest, CallsEndAfterAMinuteUnlessAHeaderSaysOtherwise) {
  const absl::Time before = absl::Now();
  EXPECT_EQ(Post(kGetJob, "{}")->status, 200);
  const absl::Time usual = absl::FromChrono(jobs_.deadline.load());
  EXPECT_GT(usual, before + absl::Seconds(59));
  EXPECT_LT(usual, absl::Now() + absl::Seconds(61));
  EXPECT_EQ(Post(kGetJob, "{}", {{"X-Timeout-Ms", "600000"}})->status, 200);
  EXPECT_GT(absl::FromChrono(jobs_.deadline.load()), before + absl::Minutes(9));
  EXPECT_EQ(Post(kGetJob, "{}", {{"grpc-timeout", "5M"}})->status, 200);
  const absl::Time in_five = absl::FromChrono(jobs_.deadline.load());
  EXPECT_GT(in_five, before + absl::Minutes(4));
  EXPECT_LT(in_five, absl::Now() + absl::Minutes(6));
  EXPECT_EQ(Post(kWatchJob, "{}")->status, 200);
  EXPECT_GT(absl::FromChrono(jobs_.deadline.load()), before + absl::Hours(99));
  ExpectError(Post(kGetJob, "{}", {{"X-Timeout-Ms", "soon"}}), 400,
              "INVALID_ARGUMENT", "X-Timeout-Ms is 'soon'");
  ExpectError(
      Post(kGetJob, "{}", {{"grpc-timeout", "5M"}, {"grpc-timeout", "1S"}}),
      400, "INVALID_ARGUMENT", "grpc-timeout is there 2 times");
}

TEST_F(JsonGatewayTest, OnlyStreamsMayTakeLongerThanTenMinutes) {
  const absl::Time before = absl::Now();
  ExpectError(Post(kGetJob, "{}", {{"X-Timeout-Ms", "600001"}}), 400,
              "INVALID_ARGUMENT", "1 to 600000");
  ExpectError(Post(kGetJob, "{}", {{"grpc-timeout", "3H"}}), 400,
              "INVALID_ARGUMENT", "up to 10M");
  EXPECT_EQ(Post(kWatchJob, "{}", {{"grpc-timeout", "3H"}})->status, 200);
  EXPECT_GT(absl::FromChrono(jobs_.deadline.load()), before + absl::Hours(2));
  ExpectError(Post(kWatchJob, "{}", {{"grpc-timeout", "25H"}}), 400,
              "INVALID_ARGUMENT", "up to 1440M");
}

TEST_F(JsonGatewayTest, ACallThatTakesLongerThanItsTimeoutIsCancelled) {
  ExpectError(Post(kGetJob, R"({"id":1})", {{"X-Timeout-Ms", "1"}}), 504,
              "DEADLINE_EXCEEDED", "");
}

TEST_F(JsonGatewayTest, AStreamIsOneObjectALine) {
  const auto result = Post(kWatchJob, R"({"id":7})");
  ASSERT_TRUE(result);
  EXPECT_EQ(result->status, 200);
  EXPECT_EQ(result->get_header_value("Content-Type"), "application/x-ndjson");
  std::istringstream lines(result->body);
  int count = 0;
  for (std::string line; std::getline(lines, line);) {
    const Json json = Json::parse(line);
    EXPECT_EQ(json["sequence"], std::to_string(++count));
    EXPECT_EQ(json["attempt"], 0);
  }
  EXPECT_EQ(count, 3);
}

TEST_F(JsonGatewayTest, AStreamIsServerSentEventsIfTheClientAcceptsThem) {
  const auto result =
      Post(kWatchJob, R"({"id":7})", {{"Accept", "text/event-stream"}});
  ASSERT_TRUE(result);
  EXPECT_EQ(result->get_header_value("Content-Type"), "text/event-stream");
  EXPECT_EQ(result->body.find("data: {\"sequence\":\"1\","), 0u);
  EXPECT_THAT(result->body,
              AllOf(HasSubstr("}\n\ndata: {\"sequence\":\"2\","),
                    HasSubstr("}\n\ndata: {\"sequence\":\"3\",")));
  EXPECT_EQ(result->body.substr(result->body.size() - 3), "}\n\n");
}

TEST_F(JsonGatewayTest, AStreamThatFailsLaterEndsWithTheError) {
  const std::string error = R"({"code":"DATA_LOSS","message":"why"})";
  const auto lines = Post(kWatchJob, R"({"id":2})");
  ASSERT_TRUE(lines);
  EXPECT_EQ(lines->status, 200);
  EXPECT_THAT(lines->body,
              ::testing::EndsWith("}\n{\"error\":" + error + "}\n"));
  const auto events =
      Post(kWatchJob, R"({"id":2})", {{"Accept", "text/event-stream"}});
  ASSERT_TRUE(events);
  EXPECT_THAT(events->body,
              ::testing::EndsWith("\n\nevent: error\ndata: " + error + "\n\n"));
}

TEST_F(JsonGatewayTest, EachMessageIsSentAtOnce) {
  std::string text;
  const auto result = Watch(kHeld, [&](const std::string& chunk) {
    text += chunk;
    // The second message is not written before the first has come.
    if (!jobs_.go_on.HasBeenNotified()) jobs_.go_on.Notify();
    return true;
  });
  ASSERT_TRUE(result) << httplib::to_string(result.error());
  EXPECT_FALSE(jobs_.cancelled);
  EXPECT_THAT(text, HasSubstr("\"sequence\":\"3\""));
}

TEST_F(JsonGatewayTest, AClientThatGoesAwayCancelsTheRpc) {
  Watch(kHeld, [](const std::string&) { return false; });
  EXPECT_TRUE(WaitUntil([&] { return jobs_.cancelled.load(); }));
}

TEST_F(JsonGatewayTest, StreamsBeyondTheMostAreRefused) {
  HeldStream held([this](int job, auto receive) { Watch(job, receive); });
  ExpectError(Post(kWatchJob, R"({"id":7})"), 503, "UNAVAILABLE", "1 streams");
  EXPECT_EQ(Post(kGetJob, R"({"id":7})")->status, 200);
  jobs_.go_on.Notify();
  EXPECT_THAT(held.Text(), HasSubstr("\"sequence\":\"3\""));
  EXPECT_EQ(Post(kWatchJob, R"({"id":7})")->status, 200);
}

TEST_F(JsonGatewayTest, UnaryCallsBeyondTheMostAreRefused) {
  std::thread held([&] {
    const auto result = Post(kGetJob, R"({"id":1})");
    EXPECT_TRUE(result && result->status == 200);
  });
  EXPECT_TRUE(WaitUntil([&] { return jobs_.holds.load(); }));
  ExpectError(Post(kGetJob, R"({"id":7})"), 503, "UNAVAILABLE", "1 calls");
  EXPECT_EQ(NewClient()->Get("/api")->status, 200);
  jobs_.go_on.Notify();
  held.join();
}

TEST_F(JsonGatewayTest, AUnaryCallInFlightIsAnsweredWhenTheServerEnds) {
  http_.reset();
  http_ =
      *HttpServer::Start({.calls_end = kPatience}, grpc_->InProcessChannel({}));
  port_ = http_->port();
  std::thread held([&] {
    const auto result = Post(kGetJob, R"({"id":1})");
    EXPECT_TRUE(result && result->status == 200);
  });
  EXPECT_TRUE(WaitUntil([&] { return jobs_.holds.load(); }));
  std::thread end([&] { http_.reset(); });
  EXPECT_TRUE(WaitUntil([&] { return !NewClient()->Get("/api"); }));
  jobs_.go_on.Notify();
  held.join();
  end.join();
}

TEST_F(JsonGatewayTest, AStreamEndsWithTheServer) {
  HeldStream held([this](int job, auto receive) { Watch(job, receive); });
  http_.reset();
  EXPECT_TRUE(WaitUntil([&] { return jobs_.cancelled.load(); }));
  EXPECT_THAT(held.Text(),
              ::testing::EndsWith("{\"error\":{\"code\":\"UNAVAILABLE\","
                                  "\"message\":\"the server is shutting "
                                  "down\"}}\n"));
}

}  // namespace
}  // namespace gpupool::server
