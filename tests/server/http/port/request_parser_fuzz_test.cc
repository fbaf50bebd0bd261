// Mutated requests are read in the same way however they are divided, and never
// beyond the limits. A proxy before the server, and the network, choose the
// pieces in which a request comes.
//
// GPUPOOL_FUZZ_ROUNDS sets the mutations per request (400), GPUPOOL_FUZZ_SEED
// the seed. A failure names request, seed and round. The same seed gives the
// same mutation, whatever the earlier rounds were.
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/http/port/request_parser.h"

namespace gpupool::server {
namespace {

using engine::Philox;

constexpr uint64_t kFuzzSeed = 20261129;
constexpr RequestParser::Limits kFuzzLimits = {.header_bytes = 300,
                                               .target_bytes = 60};
constexpr size_t kFuzzBody = 40;

constexpr const char* kRequests[] = {
    "GET /v2/models/m?a=b HTTP/1.1\r\nHost: h\r\nAccept: */*\r\n\r\nGET",
    "\r\n\r\nGET http://h/%41 HTTP/1.0\r\nHost: h\r\nConnection: keep-alive"
    "\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 10\r\n\r\n0123456789"
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
    "3;name=\"value\"\r\nabc\r\n10\r\n0123456789abcdef\r\n0\r\nX-Last: "
    "z\r\n\r\n"
    "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    "POST /echo HTTP/1.1\r\nHost: h\r\nContent-Length: 45\r\nExpect: "
    "100-continue\r\n\r\n0123456789012345678901234567890123456789 more",
};

constexpr const char* kOddPieces[] = {
    "\r\n",
    "\r",
    "\n",
    " ",
    "\t",
    ":",
    "\"",
    ";",
    "0",
    "0\r\n\r\n",
    "\r\n\r\n",
    "\r\n ",
    "ffffffffffffffff",
    "Host: h\r\n",
    "Host: i\r\n",
    "Content-Length: 5\r\n",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Connection: close\r\n",
    "X-Long: 0123456789012345678901234567890123456789012345678901234567890123"
    "01234567890123456789012345678901234567890123456789012345678901234567890"
    "\r\n",
};

uint64_t FuzzSetting(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// Makes up to four mutations: changes, removes, repeats or inserts some bytes,
// or cuts the rest off.
std::string MutateRequest(std::string text, Philox& random) {
  const uint64_t changes = random.NextBelow(5);
  for (uint64_t i = 0; i < changes && !text.empty(); ++i) {
    const size_t at = random.NextBelow(text.size());
    switch (random.NextBelow(6)) {
      case 0:
        text[at] = static_cast<char>(random.NextBelow(256));
        break;
      case 1:
        text.erase(at, 1 + random.NextBelow(8));
        break;
      case 2:
        text.insert(at, text.substr(at, 1 + random.NextBelow(32)));
        break;
      case 3:
        if (random.NextBelow(4) == 0) text.resize(at);
        break;
      default:
        text.insert(at, kOddPieces[random.NextBelow(std::size(kOddPieces))]);
    }
  }
  return text;
}

struct FuzzedRead {
  bool failed = false;
  std::string request;  // all of it; empty unless it is whole
};

std::string TextOf(RequestParser& parser, size_t bytes) {
  const HttpRequest& request = parser.request();
  std::string text =
      absl::StrCat(bytes, " bytes, keep_alive ", parser.keep_alive(), "\n",
                   request.method, " ", request.path, "?", request.query, "\n");
  for (const HttpHeader& header : request.headers) {
    absl::StrAppend(&text, header.name, ": ", header.value, "\n");
  }
  return absl::CHexEscape(text + request.body);
}

void ExpectWithinLimits(RequestParser& parser, size_t unread) {
  const HttpRequest& request = parser.request();
  EXPECT_LE(request.body.size(), kFuzzBody);
  EXPECT_LE(request.path.size() + request.query.size(),
            kFuzzLimits.target_bytes);
  size_t bytes = request.method.size();
  for (const HttpHeader& header : request.headers) {
    bytes += header.name.size() + header.value.size();
  }
  EXPECT_LE(bytes, kFuzzLimits.header_bytes);
  if (parser.failure().has_value()) {
    EXPECT_THAT(parser.failure()->status,
                ::testing::AnyOf(400, 413, 414, 431, 501));
    EXPECT_NE(parser.failure()->text, "");
  } else if (!parser.header_done()) {
    EXPECT_LT(unread, kFuzzLimits.header_bytes);
  }
}

// Feeds the bytes as a connection does. Returns how many were read.
size_t FeedUnread(RequestParser& parser, std::string& unread) {
  const bool in_header = !parser.header_done();
  size_t used = parser.Feed(unread);
  EXPECT_LE(used, unread.size());
  unread.erase(0, used);
  if (parser.failure().has_value() || parser.done()) return used;
  if (in_header && parser.header_done()) {
    parser.ReadBody(kFuzzBody, true);
    if (!unread.empty()) used += FeedUnread(parser, unread);
  }
  return used;
}

// Reads the text in pieces of up to `most` bytes.
FuzzedRead ReadInPieces(const std::string& text, size_t most, Philox& random) {
  RequestParser parser(kFuzzLimits);
  std::string unread;
  size_t read = 0;
  for (size_t at = 0; at < text.size();) {
    const std::string piece = text.substr(at, 1 + random.NextBelow(most));
    at += piece.size();
    unread += piece;
    read += FeedUnread(parser, unread);
    ExpectWithinLimits(parser, unread.size());
    if (parser.failure().has_value()) return {.failed = true};
    if (parser.done()) return {.request = TextOf(parser, read)};
  }
  return {};
}

// Reads the text whole.
FuzzedRead ReadAtOnce(const std::string& text) {
  RequestParser parser(kFuzzLimits);
  std::string unread = text;
  if (unread.empty()) return {};
  const size_t read = FeedUnread(parser, unread);
  ExpectWithinLimits(parser, unread.size());
  if (parser.failure().has_value()) return {.failed = true};
  if (!parser.done()) return {};
  return {.request = TextOf(parser, read)};
}

TEST(RequestParserFuzzTest, ARequestDoesNotDependOnItsPieces) {
  const uint64_t seed = FuzzSetting("GPUPOOL_FUZZ_SEED", kFuzzSeed);
  const uint64_t rounds = FuzzSetting("GPUPOOL_FUZZ_ROUNDS", 400);
  uint64_t stream = 0;
  size_t whole_requests = 0;
  size_t failures = 0;
  for (const char* request : kRequests) {
    for (uint64_t round = 0; round < rounds; ++round) {
      Philox random(seed, stream++);
      const std::string text = MutateRequest(request, random);
      SCOPED_TRACE(absl::StrCat("GPUPOOL_FUZZ_SEED=", seed, " round ", round,
                                " of ", absl::CHexEscape(request), "\nreads ",
                                absl::CHexEscape(text)));
      const FuzzedRead at_once = ReadAtOnce(text);
      whole_requests += at_once.request.empty() ? 0 : 1;
      failures += at_once.failed ? 1 : 0;
      for (const size_t most : {1, 3, 20, 200}) {
        const FuzzedRead pieces = ReadInPieces(text, most, random);
        EXPECT_EQ(pieces.request, at_once.request) << most;
        // A fault may be seen earlier in more bytes, but not in fewer.
        EXPECT_TRUE(at_once.failed || !pieces.failed) << most;
      }
      if (HasFailure()) return;
    }
  }
  // The mutations reach both.
  EXPECT_GT(whole_requests, rounds / 2);
  EXPECT_GT(failures, rounds / 2);
}

}  // namespace
}  // namespace gpupool::server
