#include "server/http/port/response_head.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(ResponseHeadTest, HasTheStatusAndTheHeaders) {
  HttpResponse response = JsonAnswer(404, "{}");
  response.Set("Allow", "POST");
  EXPECT_EQ(
      ResponseHead(response, {.content_length = 2, .keep_alive = true}),
      "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n"
      "Allow: POST\r\nContent-Length: 2\r\nConnection: keep-alive\r\n\r\n");
  EXPECT_EQ(ResponseHead(HttpResponse(), {.chunked = true}),
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n"
            "Connection: close\r\n\r\n");
}

TEST(ResponseHeadTest, AHeaderMakesNoOtherHeaders) {
  HttpResponse response;
  response.Set("X-a", "b\r\nX-c: d");
  response.Set("X-e\n", "f");
  EXPECT_EQ(ResponseHead(response, {}),
            "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
}

TEST(ChunkOfTest, HasTheLengthBeforeTheText) {
  EXPECT_EQ(ChunkOf("abc"), "3\r\nabc\r\n");
  EXPECT_EQ(ChunkOf(std::string(300, 'x')).substr(0, 5), "12c\r\n");
}

}  // namespace
}  // namespace gpupool::server
