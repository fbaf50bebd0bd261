#include "server/http/trace_headers.h"

#include <gtest/gtest.h>

#include <string>

#include "server/http/port/http_request.h"

namespace gpupool::server {
namespace {

TEST(MayBeMetadataTest, TakesPrintableAscii) {
  EXPECT_TRUE(MayBeMetadata("vendor=1, other=a b"));
  EXPECT_TRUE(MayBeMetadata(std::string(512, 'x')));
}

TEST(MayBeMetadataTest, RefusesWhatGrpcWouldNotSend) {
  EXPECT_FALSE(MayBeMetadata(""));
  EXPECT_FALSE(MayBeMetadata(std::string(513, 'x')));
  EXPECT_FALSE(MayBeMetadata("a\nb"));
  EXPECT_FALSE(MayBeMetadata("a\x7f"));
  EXPECT_FALSE(MayBeMetadata("caf\xc3\xa9"));
  EXPECT_FALSE(MayBeMetadata(std::string("a\0b", 3)));
}

TEST(TraceContextOfTest, JoinsTheStateAndTakesOneParent) {
  HttpRequest request;
  EXPECT_EQ(TraceContextOf(request).parent, "");
  request.headers = {
      {"TraceState", "a=1"}, {"Traceparent", "p"}, {"tracestate", "b=2"}};
  EXPECT_EQ(TraceContextOf(request).parent, "p");
  EXPECT_EQ(TraceContextOf(request).state, "a=1,b=2");
  request.headers.push_back({"traceparent", "q"});
  EXPECT_EQ(TraceContextOf(request).parent, "");
  EXPECT_EQ(TraceContextOf(request).state, "");
}

}  // namespace
}  // namespace gpupool::server
