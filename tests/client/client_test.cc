#include "client/client.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

#include "tests/client/testing/fake_server.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;

std::unique_ptr<Client> Connect(const std::string& address,
                                absl::Duration retry_window) {
  auto client = Client::Create({.address = address,
                                .call_timeout = kPatience,
                                .retry_window = retry_window});
  EXPECT_TRUE(client.ok()) << client.status();
  return *std::move(client);
}

int Calls(FakeServer& server, const std::string& rpc) {
  absl::MutexLock lock(&server.state.mutex);
  return server.state.calls[rpc];
}

void FailNext(FakeServer& server, const std::string& rpc,
              std::vector<absl::Status> statuses) {
  absl::MutexLock lock(&server.state.mutex);
  server.state.failures[rpc] = std::move(statuses);
}

TEST(ClientTest, RepeatsASubmitWithTheSameRequestIdWhileUnavailable) {
  FakeServer server;
  FailNext(
      server, "SubmitJob",
      {absl::UnavailableError("starting"), absl::UnavailableError("starting")});
  auto client = Connect(server.address(), kPatience);
  v1::SubmitJobRequest request;
  request.set_request_id("r1");
  const auto job = client->SubmitJob(request);
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->request_id(), "r1");
  EXPECT_EQ(Calls(server, "SubmitJob"), 3);
}

TEST(ClientTest, DoesNotRepeatOtherErrors) {
  FakeServer server;
  FailNext(server, "GetJob", {absl::ResourceExhaustedError("full")});
  auto client = Connect(server.address(), kPatience);
  const absl::Status status = client->GetJob({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "full");
  EXPECT_EQ(Calls(server, "GetJob"), 1);
}

TEST(ClientTest, DoesNotRepeatWhatIsNotIdempotent) {
  FakeServer server;
  FailNext(server, "PromoteCheckpoint", {absl::UnavailableError("draining")});
  auto client = Connect(server.address(), kPatience);
  const absl::Status status = client->PromoteCheckpoint({}).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_EQ(status.message(), "draining") << "the server's own words";
  EXPECT_EQ(Calls(server, "PromoteCheckpoint"), 1);
}

TEST(ClientTest, GivesUpWhenTheRetryWindowIsOver) {
  // If the machine is too busy for a second call in time, the window grows.
  for (absl::Duration window = absl::Milliseconds(400);; window *= 2) {
    FakeServer server;
    FailNext(server, "GetJob",
             std::vector<absl::Status>(50, absl::UnavailableError("draining")));
    auto client = Connect(server.address(), window);
    EXPECT_TRUE(absl::IsUnavailable(client->GetJob({}).status()));
    if (Calls(server, "GetJob") > 1) break;
  }
}

TEST(ClientTest, SaysWhatIsUnreachableWhyAndWhatToDo) {
  FakeServer server;
  server.Stop();
  auto client = Connect(server.address(), absl::ZeroDuration());
  const absl::Status status = client->GetJob({}).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(status.message(),
              HasSubstr("cannot reach a server at " + server.address() + ": "));
  EXPECT_THAT(status.message(), HasSubstr("Connection refused"));
  EXPECT_THAT(status.message(), HasSubstr("start one with `gpupoold`"));
}

TEST(ClientTest, FindsAServerThatComesBackWithinTheWindow) {
  FakeServer server;
  server.Stop();
  std::thread restart([&server] {
    LetOthersRun(absl::Milliseconds(300));
    server.Start();
  });
  auto client = Connect(server.address(), kPatience);
  EXPECT_TRUE(client->GetServerInfo({}).ok());
  restart.join();
}

TEST(ClientTest, NamesTheTimeLimitThatRanOut) {
  FakeServer server;
  auto client = Client::Create(
      {.address = server.address(), .call_timeout = absl::Milliseconds(50)});
  absl::Status status;
  {
    absl::MutexLock hold(&server.state.mutex);
    status = (*client)->GetJob({}).status();
  }
  EXPECT_TRUE(absl::IsDeadlineExceeded(status)) << status;
  EXPECT_THAT(status.message(), HasSubstr("did not answer within 50ms"));
}

TEST(ClientTest, KeepsTheTextOfALimitThatTheServerHas) {
  FakeServer server;
  auto client = Connect(server.address(), absl::ZeroDuration());
  const absl::Status late = absl::DeadlineExceededError("the planner is late");
  {
    absl::MutexLock lock(&server.state.mutex);
    server.state.failures["GetJob"] = {late};
  }
  EXPECT_EQ(client->GetJob({}).status(), late);
}

TEST(ClientTest, SaysThatAServerDoesNotOfferACall) {
  FakeServer server;
  auto client = Connect(server.address(), absl::ZeroDuration());
  const absl::Status status = client->HoldJob({}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("does not offer this"));
}

TEST(CompleteAddressTest, AddsTheDefaultPort) {
  EXPECT_EQ(*CompleteAddress("localhost"), "localhost:8001");
  EXPECT_EQ(*CompleteAddress("host:1234"), "host:1234");
  EXPECT_EQ(*CompleteAddress("[::1]"), "[::1]:8001");
  EXPECT_EQ(*CompleteAddress("[::1]:99"), "[::1]:99");
  EXPECT_EQ(*CompleteAddress("unix:/run/gpupool"), "unix:/run/gpupool");
}

TEST(CompleteAddressTest, RefusesWhatIsNoAddress) {
  for (const char* text : {"", "http://host:80", "host:", "host:0",
                           "host:65536", "host:port", "unix:"}) {
    EXPECT_EQ(CompleteAddress(text).status().code(),
              absl::StatusCode::kInvalidArgument)
        << text;
  }
}

TEST(DefaultAddressTest, ComesFromTheEnvironment) {
  setenv("GPUPOOL_ADDRESS", "there:9", 1);
  EXPECT_EQ(DefaultAddress(), "there:9");
  setenv("GPUPOOL_ADDRESS", "", 1);
  EXPECT_EQ(DefaultAddress(), "127.0.0.1:8001");
  unsetenv("GPUPOOL_ADDRESS");
  EXPECT_EQ(DefaultAddress(), "127.0.0.1:8001");
}

TEST(NewRequestIdTest, NeverRepeats) {
  EXPECT_EQ(NewRequestId().size(), 32u);
  EXPECT_NE(NewRequestId(), NewRequestId());
}

}  // namespace
}  // namespace gpupool::client
