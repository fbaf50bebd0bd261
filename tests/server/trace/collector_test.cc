#include "server/trace/collector.h"

#include <gmock/gmock.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "server/trace/otlp_messages.h"
#include "tests/server/trace/raw_port.h"
#include "tests/server/trace/test_collector.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

std::string Body() {
  Span span = {.name = "test"};
  span.trace.bytes[0] = 1;
  span.id.bytes[0] = 1;
  otlp::v1::ExportTraceRequest request;
  FillRequest({.service_name = "pool"}, {span}, &request);
  return request.SerializeAsString();
}

// A collector whose answer is one header that goes on and on.
class EndlessCollector {
 public:
  EndlessCollector() : thread_([this] { Answer(); }) {}
  // The client must be gone.
  ~EndlessCollector() {
    port_.Stop();
    thread_.join();
  }

  CollectorUrl url() const { return port_.url(); }
  bool answers() const { return answers_; }

 private:
  void Answer() {
    const int client = port_.Accept();
    absl::string_view next = "HTTP/1.1 200 OK\r\nX: ";
    while (send(client, next.data(), next.size(), MSG_NOSIGNAL) > 0) {
      next = "x";
      answers_ = true;
      LetTimePass(absl::Milliseconds(1));
    }
    close(client);
  }

  RawPort port_;
  std::atomic<bool> answers_ = false;
  std::thread thread_;
};

TEST(CollectorTest, SendsARequestThatTheCollectorReads) {
  TestCollector server;
  Collector collector(server.url());
  EXPECT_TRUE(collector.Send(Body()).taken);
  EXPECT_TRUE(collector.Send(Body()).taken);
  EXPECT_EQ(server.spans().size(), 2);
  EXPECT_EQ(server.spans()[0].name(), "test");
}

TEST(CollectorTest, TellsWhichAnswersMayBeRetried) {
  TestCollector server;
  Collector collector(server.url());
  for (const int status : {429, 502, 503, 504}) {
    server.AnswerNext({.status = status});
    const CollectorAnswer answer = collector.Send(Body());
    EXPECT_FALSE(answer.taken);
    EXPECT_TRUE(answer.may_retry) << status;
  }
  for (const int status : {400, 401, 404, 500}) {
    server.AnswerNext({.status = status});
    const CollectorAnswer answer = collector.Send(Body());
    EXPECT_FALSE(answer.taken);
    EXPECT_FALSE(answer.may_retry) << status;
    EXPECT_THAT(answer.problem, HasSubstr(std::to_string(status)));
  }
}

TEST(CollectorTest, ReadsForHowLongTheCollectorWantsToBeLeftAlone) {
  TestCollector server;
  Collector collector(server.url());
  server.AnswerNext({.status = 503, .retry_after = "7"});
  EXPECT_EQ(collector.Send(Body()).retry_after, absl::Seconds(7));
  server.AnswerNext({.status = 503});
  EXPECT_EQ(collector.Send(Body()).retry_after, std::nullopt);
}

TEST(CollectorTest, CountsSpansThatWereRejected) {
  TestCollector server;
  Collector collector(server.url());
  otlp::v1::ExportTraceResponse response;
  response.mutable_partial_success()->set_rejected_spans(3);
  response.mutable_partial_success()->set_error_message("too old");
  server.AnswerNext({.body = response.SerializeAsString()});
  const CollectorAnswer answer = collector.Send(Body());
  EXPECT_TRUE(answer.taken);
  EXPECT_EQ(answer.rejected, 3);
  EXPECT_THAT(answer.problem, HasSubstr("too old"));
}

TEST(CollectorTest, TheReasonOfTheCollectorIsOneShortLine) {
  TestCollector server;
  Collector collector(server.url());
  otlp::v1::ExportTraceResponse response;
  response.mutable_partial_success()->set_rejected_spans(1);
  response.mutable_partial_success()->set_error_message(
      "too \"old\"\n" + std::string(100'000, 'x'));
  server.AnswerNext({.body = response.SerializeAsString()});
  const std::string problem = collector.Send(Body()).problem;
  EXPECT_THAT(problem, HasSubstr("too  old  xx"));
  EXPECT_LT(problem.size(), 300);
}

TEST(CollectorTest, ACollectorThatIsAwayMayComeBack) {
  CollectorUrl url;
  {
    TestCollector server;
    url = server.url();
  }
  Collector collector(url);
  const CollectorAnswer answer = collector.Send(Body());
  EXPECT_FALSE(answer.taken);
  EXPECT_TRUE(answer.may_retry);
  EXPECT_THAT(answer.problem, HasSubstr("cannot be reached"));
}

TEST(CollectorTest, TriesAllAddressesOfTheHost) {
  TestCollector server;
  CollectorUrl url = server.url();
  url.host = "collector";
  Collector collector(
      url, {.look_up = [](const std::string& host) {
        EXPECT_EQ(host, "collector");
        // Nobody listens at the first.
        return std::vector<std::string>{"127.0.0.9", "127.0.0.1"};
      }});
  EXPECT_TRUE(collector.Send(Body()).taken);
  EXPECT_TRUE(collector.Send(Body()).taken);
  EXPECT_EQ(server.spans().size(), 2);
}

TEST(CollectorTest, AHostWithoutAnAddressMayGetOne) {
  CollectorUrl url = {.host = "nowhere", .port = 4318, .authority = "nowhere"};
  Collector collector(url, {.look_up = [](const std::string&) {
                        return std::vector<std::string>();
                      }});
  const CollectorAnswer answer = collector.Send(Body());
  EXPECT_TRUE(answer.may_retry);
  EXPECT_THAT(answer.problem, HasSubstr("address"));
}

TEST(CollectorTest, AnAnswerThatNeverEndsIsGivenUp) {
  EndlessCollector server;
  Collector collector(server.url(), {.limit = absl::Milliseconds(50)});
  const CollectorAnswer answer = collector.Send(Body());
  EXPECT_FALSE(answer.taken);
  EXPECT_TRUE(answer.may_retry);
}

TEST(CollectorTest, StopEndsAnAnswerThatNeverEnds) {
  EndlessCollector server;
  Collector collector(server.url(), {.limit = absl::InfiniteDuration()});
  std::thread sends([&] { EXPECT_FALSE(collector.Send(Body()).taken); });
  EXPECT_TRUE(WaitUntil([&] { return server.answers(); }));
  collector.Stop();
  sends.join();
  EXPECT_FALSE(collector.Send(Body()).taken);
}

TEST(ReadRetryAfterTest, ReadsWholeSecondsUpToAMinute) {
  EXPECT_EQ(ReadRetryAfter("0"), absl::ZeroDuration());
  EXPECT_EQ(ReadRetryAfter("12"), absl::Seconds(12));
  EXPECT_EQ(ReadRetryAfter("86400"), absl::Minutes(1));
  EXPECT_EQ(ReadRetryAfter("99999999999999999999999"), absl::Minutes(1));
  EXPECT_EQ(ReadRetryAfter(""), std::nullopt);
  EXPECT_EQ(ReadRetryAfter("-1"), std::nullopt);
  EXPECT_EQ(ReadRetryAfter("Wed, 21 Oct 2026 07:28:00 GMT"), std::nullopt);
}

}  // namespace
}  // namespace gpupool::server
