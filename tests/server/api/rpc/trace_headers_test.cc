#include "server/api/rpc/trace_headers.h"

#include <gtest/gtest.h>

#include <string>

namespace gpupool::server {
namespace {

TEST(TraceHeadersOfTest, ReadsBothHeaders) {
  std::string joined;
  const ClientMetadata metadata = {
      {"other", "x"}, {"traceparent", "p"}, {"tracestate", "a=1"}};
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).parent, "p");
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).state, "a=1");
  EXPECT_EQ(TraceHeadersOf({{"traceparent", "p"}}, &joined).state, "");
}

TEST(TraceHeadersOfTest, JoinsADividedStateInItsOrder) {
  std::string joined = "old";
  const ClientMetadata metadata = {{"tracestate", "b=2"},
                                   {"traceparent", "p"},
                                   {"tracestate", "a=1"},
                                   {"tracestate", "c=3"}};
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).parent, "p");
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).state, "b=2,a=1,c=3");
}

TEST(TraceHeadersOfTest, LeavesOutAStateThatIsTooLong) {
  const std::string half(kLongestTraceState / 2, 'x');
  const std::string rest(kLongestTraceState / 2 - 1, 'y');
  std::string joined;
  ClientMetadata metadata = {
      {"traceparent", "p"}, {"tracestate", half}, {"tracestate", rest}};
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).state, half + "," + rest);
  metadata.emplace("tracestate", "");
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).state, "");
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).parent, "p");
}

TEST(TraceHeadersOfTest, OfTwoParentsTakesNone) {
  std::string joined;
  const ClientMetadata metadata = {
      {"traceparent", "p"}, {"traceparent", "q"}, {"tracestate", "a=1"}};
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).parent, "");
  EXPECT_EQ(TraceHeadersOf(metadata, &joined).state, "");
  EXPECT_EQ(TraceHeadersOf({}, &joined).parent, "");
}

}  // namespace
}  // namespace gpupool::server
