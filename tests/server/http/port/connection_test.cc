// One connection of the HTTP port, over real sockets.
#include "server/http/port/connection.h"

#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/http/port/served_port.h"

namespace gpupool::server {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr char kHello[] = "GET /hello HTTP/1.1\r\nHost: h\r\n\r\n";

std::string Echo(const std::string& body, const std::string& headers = "") {
  return absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\n", headers,
                      "Content-Length: ", body.size(), "\r\n\r\n", body);
}

// Returns how many answers a text has.
int AnswersIn(absl::string_view text) {
  int count = 0;
  for (size_t at = text.find("HTTP/1.1 "); at != text.npos;
       at = text.find("HTTP/1.1 ", at + 1)) {
    ++count;
  }
  return count;
}

TEST(ConnectionTest, StaysForTheNextRequest) {
  const ServedPort served;
  RawClient client = served.NewClient();
  for (int i = 0; i < 3; ++i) {
    client.Send(kHello);
    const RawAnswer answer = client.ReceiveAnswer();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "hello");
    EXPECT_THAT(answer.head, HasSubstr("Connection: keep-alive"));
    client.Send(Echo("abc"));
    EXPECT_EQ(client.ReceiveAnswer().body, "abc");
  }
}

TEST(ConnectionTest, RequestsThatComeTogetherAreAnsweredInOrder) {
  const ServedPort served;
  RawClient client = served.NewClient();
  client.Send(absl::StrCat(Echo("first"), kHello, Echo("third"), kHello));
  EXPECT_EQ(client.ReceiveAnswer().body, "first");
  EXPECT_EQ(client.ReceiveAnswer().body, "hello");
  EXPECT_EQ(client.ReceiveAnswer().body, "third");
  EXPECT_EQ(client.ReceiveAnswer().body, "hello");
}

TEST(ConnectionTest, ARequestMayComeByteByByte) {
  const ServedPort served;
  RawClient client = served.NewClient();
  for (const char byte : Echo("slow")) client.Send(std::string(1, byte));
  EXPECT_EQ(client.ReceiveAnswer().body, "slow");
}

TEST(ConnectionTest, ClosesWhenTheClientWantsIt) {
  const ServedPort served;
  for (const char* request :
       {"GET /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n",
        "GET /hello HTTP/1.0\r\n\r\n"}) {
    RawClient client = served.NewClient();
    client.Send(request);
    const std::string all = client.ReceiveAll();
    EXPECT_THAT(all, HasSubstr("Connection: close"));
    EXPECT_THAT(all, EndsWith("hello"));
  }
  RawClient old = served.NewClient();
  for (int i = 0; i < 2; ++i) {
    old.Send("GET /hello HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    EXPECT_EQ(old.ReceiveAnswer().body, "hello");
  }
}

TEST(ConnectionTest, AClientThatEndsSendingGetsItsAnswer) {
  ServedPort served;
  for (const std::string& request : {std::string(kHello), Echo("hello")}) {
    RawClient client = served.NewClient();
    client.Send(request);
    client.EndSending();
    EXPECT_THAT(client.ReceiveAll(), EndsWith("hello"));
  }
  RawClient client = served.NewClient();
  client.Send("POST /held HTTP/1.1\r\nHost: h\r\n\r\n");
  client.EndSending();
  EXPECT_TRUE(WaitUntil([&] { return served.held > 0; }));
  served.go_on.Notify();
  EXPECT_THAT(client.ReceiveAll(), EndsWith("done"));
}

TEST(ConnectionTest, AClientThatResetsTheConnectionIsLost) {
  for (const bool first : {true, false}) {
    ServedPort served;
    RawClient client = served.NewClient();
    if (!first) {
      client.Send(Echo("abc"));
      EXPECT_EQ(client.ReceiveAnswer().body, "abc");
    }
    client.Send("POST /watched HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_TRUE(WaitUntil([&] { return served.held > 0; }));
    EXPECT_FALSE(served.lost);
    client.Reset();
    EXPECT_TRUE(WaitUntil([&] { return served.lost.load(); }));
    EXPECT_EQ(served.Get("/hello").body, "hello");
  }
}

TEST(ConnectionTest, HeadHasTheHeadersOfGetAndNoBody) {
  const ServedPort served;
  RawClient client = served.NewClient();
  client.Send("HEAD /hello HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
  const std::string all = client.ReceiveAll();
  EXPECT_THAT(all, StartsWith("HTTP/1.1 200 OK"));
  EXPECT_THAT(all, HasSubstr("Content-Length: 5\r\n"));
  EXPECT_THAT(all, EndsWith("\r\n\r\n"));
}

// Web pages and proxies may send such requests. Each could be read in two ways.
TEST(ConnectionTest, ABodyIsNeverTakenForARequest) {
  const ServedPort served;
  const std::string inner = kHello;
  const std::string length =
      absl::StrCat("Content-Length: ", inner.size(), "\r\n");
  const std::vector<std::string> heads = {
      absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\n", length,
                   "Transfer-Encoding: chunked\r\n\r\n"),
      absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\n"
                   "Transfer-Encoding: chunked\r\n",
                   length, "\r\n"),
      absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\n"
                   "Transfer-Encoding: gzip\r\n",
                   length, "\r\n"),
      absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\n", length, length,
                   "\r\n"),
      absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\nHost: i\r\n", length,
                   "\r\n"),
      absl::StrCat("POST /echo HTTP/1.1\r\n", length, "\r\n"),
      absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\n", "Content-Length : 1",
                   "\r\n\r\n"),
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: "
      "99999999999999999999\r\n\r\n",
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, "
      "identity\r\n\r\n",
      "POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
      absl::StrCat("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
      absl::StrCat("PRI / HTTP/1.1\r\nHost: h\r\n", length, "\r\n"),
      absl::StrCat("POST /", std::string(9000, 'a'), " HTTP/1.1\r\nHost: h\r\n",
                   length, "\r\n"),
      absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: ",
                   ServedPort::kMostEcho + 1, "\r\n\r\n"),
  };
  for (const std::string& head : heads) {
    RawClient client = served.NewClient();
    client.Send(head + inner);
    client.EndSending();
    const std::string all = client.ReceiveAll();
    EXPECT_THAT(all, ::testing::ContainsRegex("^HTTP/1.1 (4|501)")) << head;
    EXPECT_EQ(AnswersIn(all), 1) << head;
  }
}

TEST(ConnectionTest, TheBodyOfARefusedRequestIsDroppedIfItIsSmall) {
  const ServedPort served;
  RawClient client = served.NewClient();
  client.Send(
      absl::StrCat("POST /nowhere HTTP/1.1\r\nHost: h\r\n"
                   "Content-Length: 40\r\n\r\n",
                   std::string(40, 'x'), kHello));
  EXPECT_EQ(client.ReceiveAnswer().status, 404);
  EXPECT_EQ(client.ReceiveAnswer().body, "hello");
}

TEST(ConnectionTest, AWrongMethodIsToldThoseOfThePath) {
  const ServedPort served;
  RawClient client = served.NewClient();
  client.Send(
      "POST /hello HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc");
  const RawAnswer posted = client.ReceiveAnswer();
  EXPECT_EQ(posted.status, 405);
  EXPECT_THAT(posted.head, HasSubstr("\r\nAllow: GET, HEAD\r\n"));
  client.Send("GET /echo HTTP/1.1\r\nHost: h\r\n\r\n");
  const RawAnswer got = client.ReceiveAnswer();
  EXPECT_EQ(got.status, 405);
  EXPECT_THAT(got.head, HasSubstr("\r\nAllow: POST\r\n"));
  client.Send(kHello);
  EXPECT_EQ(client.ReceiveAnswer().body, "hello");
  client.Send("POST /nowhere HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_EQ(client.ReceiveAnswer().status, 404);
}

TEST(ConnectionTest, LargeHeadersAndPathsAreRefused) {
  const ServedPort served;
  EXPECT_EQ(served.Get("/" + std::string(8000, 'a')).status, 404);
  const RawAnswer long_path = served.Get("/" + std::string(9000, 'a'));
  EXPECT_EQ(long_path.status, 414);
  EXPECT_EQ(long_path.body,
            "the path has 9001 bytes with its query; at most 8192 over HTTP");
  EXPECT_EQ(served.Get("/" + std::string(100'000, 'a')).status, 414);
  const std::string line = "X-a: " + std::string(1000, 'v') + "\r\n";
  std::string headers;
  for (int i = 0; i < 15; ++i) headers += line;
  EXPECT_EQ(served.Ask("GET /hello HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n")
                .status,
            200);
  headers += line + line;
  const RawAnswer many =
      served.Ask("GET /hello HTTP/1.1\r\nHost: h\r\n" + headers + "\r\n");
  EXPECT_EQ(many.status, 431);
  EXPECT_THAT(many.body, HasSubstr("16384 bytes"));
}

TEST(ConnectionTest, HeadersThatComeOneByOneHaveALimitInTotal) {
  const ServedPort served;
  RawClient client = served.NewClient();
  client.Send("GET /hello HTTP/1.1\r\nHost: h\r\n");
  for (int i = 0; i < 2000; ++i) client.Send("X-a: b\r\nX-c: d\r\n");
  EXPECT_EQ(client.ReceiveAnswer().status, 431);
}

TEST(ConnectionTest, LargeBodiesAreRefusedAndTheClientSeesTheAnswer) {
  const ServedPort served;
  const std::string large(4 * ServedPort::kMostEcho, 'x');
  RawClient announced = served.NewClient();
  EXPECT_TRUE(announced.Send(Echo(large)));
  const RawAnswer answer = announced.ReceiveAnswer();
  EXPECT_EQ(answer.status, 413);
  EXPECT_THAT(answer.body, HasSubstr("more than 1048576 bytes"));
  EXPECT_EQ(announced.Receive(), "");
  RawClient chunked = served.NewClient();
  chunked.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n");
  const std::string chunk =
      absl::StrCat("10000\r\n", std::string(0x10000, 'x'), "\r\n");
  for (int i = 0; i < 40; ++i) EXPECT_TRUE(chunked.Send(chunk)) << i;
  EXPECT_EQ(chunked.ReceiveAnswer().status, 413);
}

TEST(ConnectionTest, ABodyInChunksIsPutTogether) {
  const ServedPort served;
  RawClient client = served.NewClient();
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;name=value\r\nabc\r\n4\r\ndefg\r\n0\r\nX-Trailer: t\r\n\r\n");
  EXPECT_EQ(client.ReceiveAnswer().body, "abcdefg");
  client.Send(kHello);
  EXPECT_EQ(client.ReceiveAnswer().body, "hello");
  for (const char* wrong : {"x\r\nabc\r\n", "3\r\nabcd\r\n0\r\n\r\n",
                            "fffffffffffffffff\r\nabc\r\n"}) {
    const RawAnswer answer = served.Ask(
        absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: "
                     "chunked\r\n\r\n",
                     wrong));
    EXPECT_EQ(answer.status / 100, 4) << wrong;
  }
}

TEST(ConnectionTest, ALineOfABodyHasALimit) {
  const ServedPort served;
  const RawAnswer answer = served.Ask(
      "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;a=" +
      std::string(200'000, 'x'));
  EXPECT_EQ(answer.status, 400);
}

TEST(ConnectionTest, ALargeBodyComesWhole) {
  const ServedPort served;
  std::string body;
  while (body.size() < ServedPort::kMostEcho) {
    absl::StrAppend(&body, body.size(), ",");
  }
  body.resize(ServedPort::kMostEcho);
  EXPECT_EQ(served.Ask(Echo(body)).body, body);
}

TEST(ConnectionTest, AClientThatWantsToContinueIsToldSo) {
  const ServedPort served;
  RawClient client = served.NewClient();
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n"
      "Content-Length: 3\r\n\r\n");
  EXPECT_EQ(client.ReceiveAnswer().status, 100);
  client.Send("abc");
  EXPECT_EQ(client.ReceiveAnswer().body, "abc");
  client.Send(
      absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\nExpect: "
                   "100-continue\r\nContent-Length: ",
                   ServedPort::kMostEcho + 1, "\r\n\r\n"));
  EXPECT_EQ(client.ReceiveAnswer().status, 413);
  EXPECT_EQ(client.Receive(), "");
  EXPECT_EQ(
      served.Ask("GET /hello HTTP/1.1\r\nHost: h\r\nExpect: x\r\n\r\n").status,
      417);
}

TEST(ConnectionTest, APathThatIsNotUtf8IsRefused) {
  const ServedPort served;
  for (const char* path : {"/%ff%fe", "/\xff\xfe"}) {
    const RawAnswer answer = served.Get(path);
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_NE(answer.body, "") << path;
  }
}

TEST(ConnectionTest, AnAnswerThatThrowsIsAnError) {
  const ServedPort served;
  const RawAnswer answer = served.Get("/broken");
  EXPECT_EQ(answer.status, 503);
  EXPECT_EQ(answer.body, "broken");
}

TEST(ConnectionTest, BodiesThatDoNotFitBesideOthersAreRefused) {
  ServedPort served;
  const auto most = served.bodies.Take(served.bodies.most());
  ASSERT_TRUE(most.has_value());
  const RawAnswer answer = served.Ask(Echo("abc"));
  EXPECT_THAT(answer.body, HasSubstr("4194304 bytes at a time"));
  EXPECT_EQ(served.Ask(Echo("")).status, 200);
}

TEST(ConnectionTest, ABodyThatIsOnlyAnnouncedTakesLittleRoom) {
  const ServedPort served;
  std::vector<RawClient> half;
  for (int i = 0; i < 100; ++i) {
    half.push_back(served.NewClient());
    half.back().Send(
        absl::StrCat("POST /echo HTTP/1.1\r\nHost: h\r\n"
                     "Content-Length: ",
                     ServedPort::kMostEcho, "\r\n\r\nx"));
  }
  const std::string body(ServedPort::kMostEcho, 'x');
  EXPECT_EQ(served.Ask(Echo(body)).body, body);
}

TEST(ConnectionTest, ABodyThatFitsNoMoreIsRefusedWhileItComes) {
  ServedPort served;
  const auto others = served.bodies.Take(served.bodies.most() - (100 << 10));
  ASSERT_TRUE(others.has_value());
  RawClient client = served.NewClient();
  EXPECT_TRUE(client.Send(Echo(std::string(ServedPort::kMostEcho, 'x'))));
  EXPECT_THAT(client.ReceiveAnswer().body, HasSubstr("bytes at a time"));
  EXPECT_EQ(client.Receive(), "");
  EXPECT_EQ(served.Ask(Echo("abc")).body, "abc");
}

TEST(ConnectionTest, ARequestThatTakesTooLongIsToldSo) {
  HttpPortOptions options;
  options.deadlines.headers = absl::Milliseconds(50);
  options.deadlines.body_pause = absl::Milliseconds(50);
  const ServedPort served(options);
  for (const char* part :
       {"GET /hello HTTP/1.1\r\nHost: h\r\n",
        "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab"}) {
    RawClient client = served.NewClient();
    client.Send(part);
    const std::string all = client.ReceiveAll();
    EXPECT_THAT(all, StartsWith("HTTP/1.1 408")) << part;
    EXPECT_EQ(AnswersIn(all), 1);
  }
}

TEST(ConnectionTest, ABodyThatTricklesInHasALimitInTotal) {
  HttpPortOptions options;
  options.deadlines.request = absl::Milliseconds(200);
  options.deadlines.linger = absl::Milliseconds(200);
  const ServedPort served(options);
  RawClient client = served.NewClient();
  client.Send(
      "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 99999\r\n\r\n");
  while (client.Send("x")) LetTimePass(absl::Milliseconds(1));
  // The server has closed the connection, long before the body was whole.
  EXPECT_EQ(served.Get("/hello").status, 200);
}

TEST(ConnectionTest, ARequestThatEndsEarlyIsToldSo) {
  const ServedPort served;
  for (const char* part :
       {"GET /hello HTTP/1.1\r\nHost: h\r\n",
        "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nab"}) {
    RawClient client = served.NewClient();
    client.Send(part);
    client.EndSending();
    const std::string all = client.ReceiveAll();
    EXPECT_THAT(all, StartsWith("HTTP/1.1 400")) << part;
    EXPECT_THAT(all, EndsWith("the request ends early")) << part;
  }
}

TEST(ConnectionTest, AnIdleConnectionIsClosedWithoutAWord) {
  HttpPortOptions options;
  options.deadlines.idle = absl::Milliseconds(50);
  const ServedPort served(options);
  RawClient silent = served.NewClient();
  EXPECT_EQ(silent.Receive(), "");
  RawClient used = served.NewClient();
  used.Send(kHello);
  EXPECT_EQ(used.ReceiveAnswer().status, 200);
  EXPECT_EQ(used.Receive(), "");
}

TEST(ConnectionTest, EmptyLinesDoNotBeginARequest) {
  HttpPortOptions options;
  options.deadlines.headers = absl::Milliseconds(1);
  const ServedPort served(options);
  for (const char* lines : {"\r\n", "\r", "\r\n\r\n\r\n\r"}) {
    RawClient client = served.NewClient();
    client.Send(absl::StrCat(kHello, lines));
    EXPECT_EQ(client.ReceiveAnswer().body, "hello");
    // A request that has begun is late by then.
    EXPECT_EQ(served.Ask("GET /hello").status, 408);
    client.Send(absl::EndsWith(lines, "\r") ? absl::StrCat("\n", kHello)
                                            : kHello);
    EXPECT_EQ(client.ReceiveAnswer().body, "hello");
  }
}

TEST(ConnectionTest, ARequestMayComeAfterEmptyLines) {
  const ServedPort served;
  RawClient client = served.NewClient();
  const std::string text = absl::StrCat("\r\n\r\n", kHello);
  for (size_t begin = 1; begin < 6; ++begin) {
    client.Send(text.substr(0, begin));
    // The rest comes apart from it when the port has read it.
    EXPECT_EQ(served.Get("/hello").status, 200);
    client.Send(text.substr(begin));
    EXPECT_EQ(client.ReceiveAnswer().body, "hello") << begin;
  }
  std::string many;
  for (int i = 0; i < 20'000; ++i) many += "\r\n";
  client.Send(absl::StrCat(many, kHello));
  EXPECT_EQ(client.ReceiveAnswer().body, "hello");
}

TEST(ConnectionTest, AClientThatTakesNothingIsCutOff) {
  HttpPortOptions options;
  options.deadlines.write_pause = absl::Milliseconds(50);
  options.connections.total = 1;
  const ServedPort served(options);
  RawClient client = served.NewClient();
  client.Send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  // Others are turned away until then.
  EXPECT_TRUE(WaitUntil([&] { return served.Get("/hello").status == 200; }));
}

TEST(ConnectionTest, AClientThatTakesLittleAtATimeIsCutOff) {
  HttpPortOptions options;
  options.deadlines.write_pause = absl::Milliseconds(200);
  options.deadlines.least_rate = 1e12;
  const ServedPort served(options);
  RawClient slow = served.NewClient();
  slow.Send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_LT(slow.ReceiveSlowly(), ServedPort::kLarge);
}

TEST(ConnectionTest, LargeAnswersThatAreNotTakenHaveALimit) {
  HttpPortOptions options;
  options.answer_bytes = ServedPort::kLarge + 100;
  const ServedPort served(options);
  RawClient slow = served.NewClient();
  slow.Send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_NE(slow.Receive(), "");
  const RawAnswer refused = served.Get("/large");
  EXPECT_EQ(refused.status, 503);
  EXPECT_THAT(refused.body, HasSubstr("33554532 bytes, which is the most"));
  EXPECT_EQ(served.Get("/hello").body, "hello");
  slow.Close();
  EXPECT_TRUE(WaitUntil([&] { return served.Get("/large").status == 200; }));
}

TEST(ConnectionTest, AnAnswerAboveTheLimitOfAllComesAlone) {
  HttpPortOptions options;
  options.answer_bytes = 1;
  const ServedPort served(options);
  RawClient client = served.NewClient();
  for (int i = 0; i < 2; ++i) {
    client.Send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_EQ(client.ReceiveAnswer().body.size(), ServedPort::kLarge);
  }
}

TEST(ConnectionTest, ALargeAnswerComesWhole) {
  const ServedPort served;
  EXPECT_EQ(served.Get("/large").body.size(), ServedPort::kLarge);
}

TEST(ConnectionTest, AStreamComesInChunks) {
  ServedPort served;
  served.stream = [](BodyWriter& writer) {
    EXPECT_TRUE(writer.Write("one\n"));
    EXPECT_TRUE(writer.Write("second\n"));
  };
  RawClient client = served.NewClient();
  client.Send("POST /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  const std::string all = client.ReceiveAll();
  EXPECT_THAT(all, HasSubstr("Transfer-Encoding: chunked\r\n"));
  EXPECT_THAT(all, Not(HasSubstr("Content-Length")));
  EXPECT_THAT(all,
              EndsWith("\r\n\r\n4\r\none\n\r\n7\r\nsecond\n\r\n0\r\n\r\n"));
  RawClient old = served.NewClient();
  old.Send("POST /stream HTTP/1.0\r\n\r\n");
  EXPECT_THAT(old.ReceiveAll(), EndsWith("\r\n\r\none\nsecond\n"));
}

TEST(ConnectionTest, AStreamNoticesThatItsClientIsGone) {
  ServedPort served;
  std::atomic<bool> gone = false;
  served.stream = [&](BodyWriter& writer) {
    writer.Write("one\n");
    gone = WaitUntil([&] { return !writer.is_open(); });
    EXPECT_FALSE(writer.Write("two\n"));
  };
  {
    RawClient client = served.NewClient();
    client.Send("POST /stream HTTP/1.1\r\nHost: h\r\n\r\n");
    EXPECT_NE(client.Receive(), "");
  }
  EXPECT_TRUE(WaitUntil([&] { return gone.load(); }));
}

TEST(ConnectionTest, AStreamWaitsForASlowReaderAndThenGivesUp) {
  HttpPortOptions options;
  options.deadlines.write_pause = absl::Milliseconds(200);
  ServedPort served(options);
  std::atomic<int> written = 0;
  std::atomic<bool> ended = false;
  served.stream = [&](BodyWriter& writer) {
    const std::string text(1 << 20, 'x');
    while (writer.Write(text)) ++written;
    ended = true;
  };
  RawClient client = served.NewClient();
  client.Send("POST /stream HTTP/1.1\r\nHost: h\r\n\r\n");
  EXPECT_TRUE(WaitUntil([&] { return ended.load(); }));
  // The buffers of the system take some of it.
  EXPECT_LT(written, 100);
}

}  // namespace
}  // namespace gpupool::server
