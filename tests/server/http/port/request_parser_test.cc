#include "server/http/port/request_parser.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

constexpr RequestParser::Limits kLimits = {.header_bytes = 1000,
                                           .target_bytes = 100};

// Feeds a text in pieces of this size, as a connection does. Returns what is
// left of it.
std::string FeedAll(RequestParser* parser, const std::string& text,
                    size_t piece, size_t most_body = 100) {
  std::string unread;
  bool began = false;
  for (size_t at = 0; at < text.size(); at += piece) {
    unread += text.substr(at, piece);
    while (!parser->done() && !parser->failure().has_value()) {
      const size_t used = parser->Feed(unread);
      unread.erase(0, used);
      if (!began && parser->header_done() && !parser->failure().has_value()) {
        began = true;
        if (!parser->done()) parser->ReadBody(most_body, true);
        continue;
      }
      break;
    }
  }
  return unread;
}

TEST(RequestParserTest, ReadsHeadersAndBodyInAnyPieces) {
  const std::string text =
      "\r\nPOST /a%20b?c=d HTTP/1.1\r\nHost: h\r\nX-Name:  value \r\n"
      "Content-Length: 3\r\n\r\nabcGET";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    RequestParser parser(kLimits);
    const std::string rest = FeedAll(&parser, text, piece);
    ASSERT_TRUE(parser.done()) << piece;
    const HttpRequest& request = parser.request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/a b");
    EXPECT_EQ(request.query, "c=d");
    EXPECT_EQ(request.Header("x-name"), "value");
    EXPECT_EQ(request.body, "abc");
    EXPECT_TRUE(parser.keep_alive());
    EXPECT_EQ(rest, "GET");
  }
}

TEST(RequestParserTest, ReadsChunksInAnyPieces) {
  const std::string text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: Chunked\r\n\r\n"
      "2;a=\"b\"\r\nab\r\n3\r\ncde\r\n0\r\nX-Last: z\r\n\r\nGET";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    RequestParser parser(kLimits);
    const std::string rest = FeedAll(&parser, text, piece);
    ASSERT_TRUE(parser.done()) << piece;
    EXPECT_EQ(parser.request().body, "abcde");
    EXPECT_EQ(parser.request().Count("X-Last"), 0u);
    EXPECT_FALSE(parser.content_length().has_value());
    EXPECT_EQ(rest, "GET");
  }
}

TEST(RequestParserTest, TheLastChunkMayBeTheOnlyOne) {
  const std::string head =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string last : {"0\r\n\r\n", "0\r\nX-Last: z\r\n\r\n"}) {
    for (size_t piece = 1; piece <= head.size() + last.size(); ++piece) {
      RequestParser parser(kLimits);
      EXPECT_EQ(FeedAll(&parser, head + last, piece), "");
      EXPECT_TRUE(parser.done()) << piece;
      EXPECT_EQ(parser.request().body, "");
    }
  }
}

TEST(RequestParserTest, TheHeadersHaveALimitInAnyPieces) {
  std::string text = "GET / HTTP/1.1\r\nHost: h\r\n";
  for (int i = 0; i < 100; ++i) text += "X-a: 12345\r\n";
  for (size_t piece = 1; piece <= text.size(); piece += 7) {
    RequestParser parser(kLimits);
    FeedAll(&parser, text, piece);
    ASSERT_TRUE(parser.failure().has_value()) << piece;
    EXPECT_EQ(parser.failure()->status, 431) << piece;
    EXPECT_THAT(parser.failure()->text, HasSubstr("1000 bytes"));
  }
}

TEST(RequestParserTest, TheTargetHasALimit) {
  const std::pair<size_t, const char*> rows[] = {
      {200, "the path has 201 bytes with its query; at most 100 over HTTP"},
      {20'000,
       "the request line has more than 1000 bytes; its path may have 100"}};
  for (const auto& [bytes, text] : rows) {
    RequestParser parser(kLimits);
    FeedAll(&parser,
            absl::StrCat("GET /", std::string(bytes, 'a'),
                         " HTTP/1.1\r\nHost: h\r\n\r\n"),
            100);
    ASSERT_TRUE(parser.failure().has_value());
    EXPECT_EQ(parser.failure()->status, 414);
    EXPECT_EQ(parser.failure()->text, text);
  }
}

TEST(RequestParserTest, TheBodyHasALimitWithoutItsChunks) {
  const std::string head =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  std::string chunks;
  for (int i = 0; i < 100; ++i) chunks += "1\r\nx\r\n";
  RequestParser fits(kLimits);
  FeedAll(&fits, head + chunks + "0\r\n\r\n", 10);
  EXPECT_TRUE(fits.done());
  RequestParser large(kLimits);
  FeedAll(&large, head + chunks + "1\r\nx\r\n0\r\n\r\n", 10);
  ASSERT_TRUE(large.failure().has_value());
  EXPECT_EQ(large.failure()->status, 413);
  EXPECT_EQ(large.failure()->text, BodyTooLarge(100));
}

TEST(RequestParserTest, AnOldClientClosesUnlessItSaysOtherwise) {
  RequestParser closes(kLimits);
  FeedAll(&closes, "GET / HTTP/1.0\r\n\r\n", 100);
  ASSERT_TRUE(closes.done());
  EXPECT_TRUE(closes.is_http_1_0());
  EXPECT_FALSE(closes.keep_alive());
  RequestParser stays(kLimits);
  FeedAll(&stays, "GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", 100);
  EXPECT_TRUE(stays.keep_alive());
}

TEST(RequestParserTest, WhatCanBeReadInTwoWaysIsRefused) {
  const std::string post = "POST / HTTP/1.1\r\nHost: h\r\n";
  const std::pair<std::string, int> rows[] = {
      {"GET / HTTP/1.1\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400},
      {"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/1.2\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/1.1\nHost: h\n\n\r\n\r\n", 400},
      {"PRI / HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /%ff HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET /a%2Fb HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET http://other/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET http://h:1/ HTTP/1.1\r\nHost: h\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400},
      {"GET / HTTP/1.1\r\nHost: h\r\nA:\r\n\tb\r\n\r\n", 400},
      {post + "Transfer-Encoding:\r\n chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n1;a=\"\n\"\r\nx\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\n\r\n0;a=\"\n\"\r\n\r\n", 400},
      {post + "Content-Length: 1\r\nContent-Length: 1\r\n\r\n", 400},
      {post + "Content-Length: 1, 1\r\n\r\n", 400},
      {post + "Content-Length: +1\r\n\r\n", 400},
      {post + "Content-Length: 0x1\r\n\r\n", 400},
      {post + "Content-Length: \r\n\r\n", 400},
      {post + "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
      {post + "Transfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400},
      {post + "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
      {post + "Transfer-Encoding: identity\r\n\r\n", 501},
      {post + "Transfer-Encoding: chunked\r\nTransfer-Encoding: x\r\n\r\n",
       400}};
  for (const auto& [text, status] : rows) {
    for (const size_t piece : {100, 1}) {
      RequestParser parser(kLimits);
      FeedAll(&parser, text, piece);
      ASSERT_TRUE(parser.failure().has_value()) << text;
      EXPECT_EQ(parser.failure()->status, status) << text;
      EXPECT_NE(parser.failure()->text, "");
    }
  }
}

TEST(RequestParserTest, TheHostMayBeInTheTarget) {
  for (const char* text : {"GET http://h:1/a HTTP/1.1\r\nHost: H:1\r\n\r\n",
                           "GET http://h/a HTTP/1.0\r\n\r\n"}) {
    RequestParser parser(kLimits);
    FeedAll(&parser, text, 100);
    ASSERT_TRUE(parser.done()) << text;
    EXPECT_EQ(parser.request().path, "/a");
  }
}

}  // namespace
}  // namespace gpupool::server
