// Many connections of the HTTP port, over real sockets.
#include "server/http/port/http_port.h"

#include <fcntl.h>
#include <httplib.h>
#include <spdlog/sinks/ringbuffer_sink.h>
#include <spdlog/spdlog.h>
#include <sys/resource.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/http/port/served_port.h"

namespace gpupool::server {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kHalf[] = "GET /hello HTTP/1.1\r\nHost: h\r\nX-a:";
constexpr char kHeld[] = "POST /held HTTP/1.1\r\nHost: h\r\n\r\n";

// Sets the soft limit of open files, and sets the old one again at its end.
class OpenFiles {
 public:
  explicit OpenFiles(rlim_t most) {
    EXPECT_EQ(getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit now = before_;
    now.rlim_cur = std::min(most, before_.rlim_max);
    EXPECT_EQ(setrlimit(RLIMIT_NOFILE, &now), 0);
  }
  ~OpenFiles() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_ = {};
};

TEST(HttpPortTest, SilentAndHalfSentRequestsDelayNoProbe) {
  const OpenFiles many(8192);
  const ServedPort served;
  std::vector<RawClient> silent;
  std::vector<RawClient> half;
  for (int i = 0; i < 500; ++i) silent.push_back(served.NewClient());
  for (int i = 0; i < 64; ++i) {
    half.push_back(served.NewClient());
    half.back().Send(i % 2 == 0 ? kHalf
                                : "POST /echo HTTP/1.1\r\nHost: h\r\n"
                                  "Content-Length: 9\r\n\r\nx");
  }
  EXPECT_EQ(served.Get("/health").body, "healthy");
  // All are still open, so that the probe waited for none of them.
  for (RawClient& client : half) {
    EXPECT_TRUE(client.Send(" b"));
  }
  for (RawClient& client : silent) {
    client.Send("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(client.ReceiveAnswer().status, 200);
  }
  EXPECT_EQ(served.Get("/health").body, "healthy");
}

TEST(HttpPortTest, BusyThreadsOfOtherLanesDelayNoProbe) {
  HttpPortOptions options;
  options.threads = {0, 1, 1, 2, 1};
  ServedPort served(options);
  std::vector<RawClient> held;
  for (int i = 0; i < 20; ++i) {
    held.push_back(served.NewClient());
    held.back().Send(kHeld);
  }
  EXPECT_TRUE(WaitUntil([&] { return served.held == 2; }));
  EXPECT_EQ(served.Get("/health").body, "healthy");
  served.go_on.Notify();
  for (RawClient& client : held) {
    EXPECT_EQ(client.ReceiveAnswer().body, "done");
  }
}

TEST(HttpPortTest, ConnectionsBeyondTheMostAreToldSo) {
  HttpPortOptions options;
  options.connections.total = 8;
  const ServedPort served(options);
  std::vector<RawClient> busy;
  for (int i = 0; i < 8; ++i) {
    busy.push_back(served.NewClient());
    busy.back().Send(kHeld);
  }
  RawClient more = served.NewClient();
  EXPECT_THAT(more.ReceiveAll(), AllOf(StartsWith("HTTP/1.1 503"),
                                       HasSubstr("too many connections")));
}

TEST(HttpPortTest, TheConnectionThatIsIdleForLongestMakesRoom) {
  HttpPortOptions options;
  options.connections.total = 8;
  options.least_idle = absl::ZeroDuration();
  const ServedPort served(options);
  std::vector<RawClient> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(served.NewClient());
  EXPECT_EQ(served.Get("/health").body, "healthy");
  EXPECT_EQ(silent[0].Receive(), "");
  silent.back().Send("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(silent.back().ReceiveAnswer().body, "hello");
}

// Returns a limit of open files that no further file fits below.
rlim_t FilesOpenNow() {
  const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(next);
  return static_cast<rlim_t>(next);
}

TEST(HttpPortTest, GoesOnWhenFilesMayBeOpenedAgain) {
  const auto log = std::make_shared<spdlog::sinks::ringbuffer_sink_mt>(10);
  const auto before = spdlog::default_logger();
  spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", log));
  {
    const ServedPort served;
    EXPECT_EQ(served.Get("/hello").status, 200);
    RawClient client(0);
    {
      const OpenFiles none(FilesOpenNow());
      client.Connect(served.port());
      client.Send("GET /hello HTTP/1.1\r\nHost: h\r\n\r\n");
      EXPECT_TRUE(WaitUntil([&] { return !log->last_formatted().empty(); }));
    }
    EXPECT_EQ(client.ReceiveAnswer().body, "hello");
    EXPECT_EQ(served.Get("/hello").status, 200);
  }
  spdlog::set_default_logger(before);
  const std::vector<std::string> lines = log->last_formatted();
  ASSERT_EQ(lines.size(), 1u) << "one line a minute";
  EXPECT_THAT(lines[0], AllOf(HasSubstr("warning"),
                              HasSubstr("cannot accept a connection")));
}

TEST(HttpPortTest, AnswersThatAreBeingMadeAreSentAtTheEnd) {
  ServedPort served;
  RawClient held = served.NewClient();
  held.Send(kHeld);
  RawClient idle = served.NewClient();
  EXPECT_TRUE(WaitUntil([&] { return served.held > 0; }));
  served.BeginStop();
  EXPECT_EQ(idle.Receive(), "");
  served.go_on.Notify();
  std::thread stop([&] { served.Stop(); });
  const std::string all = held.ReceiveAll();
  EXPECT_THAT(all, AllOf(HasSubstr("Connection: close"), EndsWith("done")));
  stop.join();
}

TEST(HttpPortTest, AClientThatTakesLittleAtATimeDelaysNoStop) {
  HttpPortOptions options;
  options.deadlines.finish = absl::Milliseconds(50);
  ServedPort served(options);
  RawClient slow = served.NewClient();
  slow.Send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  const size_t begun = slow.Receive().size();
  std::thread stop([&] { served.Stop(); });
  EXPECT_LT(begun + slow.ReceiveSlowly(), ServedPort::kLarge);
  stop.join();
}

TEST(HttpPortTest, AStreamThatGoesOnDelaysNoStop) {
  HttpPortOptions options;
  options.deadlines.finish = absl::Milliseconds(50);
  ServedPort served(options);
  served.stream = [](BodyWriter& writer) {
    while (writer.Write(std::string(1 << 16, 'x'))) {
    }
  };
  RawClient client = served.NewClient();
  client.Send("POST /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(client.Receive(), "");
  std::thread stop([&] { served.Stop(); });
  // Takes all that comes, which would never end by itself.
  while (!client.Receive().empty()) {
  }
  stop.join();
}

TEST(HttpPortTest, AnswersBrowsersAndOtherClients) {
  const ServedPort served;
  httplib::Client client("127.0.0.1", served.port());
  client.set_keep_alive(true);
  for (int i = 0; i < 3; ++i) {
    const auto got = client.Get("/hello");
    ASSERT_TRUE(got) << httplib::to_string(got.error());
    EXPECT_EQ(got->body, "hello");
    const auto posted = client.Post("/echo", "abc", "text/plain");
    ASSERT_TRUE(posted) << httplib::to_string(posted.error());
    EXPECT_EQ(posted->body, "abc");
  }
}

TEST(HttpPortTest, TlsThatCannotBeSetUpIsAnError) {
  HttpPortOptions options;
  options.set_up_tls = [](SSL_CTX&) { return false; };
  const auto port = HttpPort::Start(
      options, HttpRouter({.error = [](const absl::Status&, int) {
        return HttpResponse();
      }}));
  EXPECT_TRUE(absl::IsInternal(port.status())) << port.status();
}

}  // namespace
}  // namespace gpupool::server
