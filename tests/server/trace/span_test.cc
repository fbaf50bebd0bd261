#include "server/trace/span.h"

#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(SpanTest, AnAttributeKeepsTheTypeOfItsValue) {
  Span span;
  AddAttribute(&span, "text", "cpu:0");
  AddAttribute(&span, "number", int64_t{7});
  AddAttribute(&span, "seconds", 0.5);
  ASSERT_EQ(span.attributes.size(), 3u);
  EXPECT_EQ(span.attributes[0].key, "text");
  EXPECT_EQ(std::get<std::string>(span.attributes[0].value), "cpu:0");
  EXPECT_EQ(std::get<int64_t>(span.attributes[1].value), 7);
  EXPECT_EQ(std::get<double>(span.attributes[2].value), 0.5);
}

}  // namespace
}  // namespace gpupool::server
