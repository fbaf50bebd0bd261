#include "server/http/port/http_request.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(HttpRequestTest, NamesOfHeadersHaveNoCase) {
  HttpRequest request;
  request.headers = {{"Host", "a"}, {"X-Name", "b"}, {"x-name", "c"}};
  EXPECT_EQ(request.Header("x-NAME"), "b");
  EXPECT_EQ(request.Count("x-NAME"), 2u);
  EXPECT_EQ(request.Header("Accept"), "");
  EXPECT_EQ(request.Count("Accept"), 0u);
}

}  // namespace
}  // namespace gpupool::server
