#include "server/trace/otlp_messages.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace gpupool::server {
namespace {

Span Example() {
  Span span = {.name = "queue"};
  span.trace.bytes[0] = 1;
  span.id.bytes[7] = 2;
  span.start = absl::FromUnixNanos(1'000'000'001);
  span.end = absl::FromUnixNanos(1'000'000'005);
  return span;
}

otlp::v1::Span Sent(const Span& span) {
  otlp::v1::ExportTraceRequest request;
  FillRequest({}, {span}, &request);
  return request.resource_spans(0).scope_spans(0).spans(0);
}

TEST(FillRequestTest, DescribesTheProcess) {
  otlp::v1::ExportTraceRequest request;
  FillRequest({.service_name = "pool",
               .service_version = "1.2.3",
               .instance_id = "boot"},
              {Example(), Example()}, &request);
  ASSERT_EQ(request.resource_spans_size(), 1);
  std::map<std::string, std::string> attributes;
  for (const auto& one : request.resource_spans(0).resource().attributes()) {
    attributes[one.key()] = one.value().string_value();
  }
  EXPECT_EQ(attributes["service.name"], "pool");
  EXPECT_EQ(attributes["service.version"], "1.2.3");
  EXPECT_EQ(attributes["service.instance.id"], "boot");
  EXPECT_TRUE(attributes.contains("host.name"));
  EXPECT_TRUE(attributes.contains("process.pid"));
  EXPECT_EQ(request.resource_spans(0).scope_spans(0).spans_size(), 2);
}

TEST(FillRequestTest, WritesIdsTimesAndKind) {
  Span span = Example();
  span.kind = Span::Kind::kServer;
  const otlp::v1::Span sent = Sent(span);
  EXPECT_EQ(sent.trace_id(), std::string("\x01") + std::string(15, '\0'));
  EXPECT_EQ(sent.span_id(), std::string(7, '\0') + "\x02");
  EXPECT_EQ(sent.parent_span_id(), "");
  EXPECT_EQ(sent.name(), "queue");
  EXPECT_EQ(sent.kind(), otlp::v1::Span::SERVER);
  EXPECT_EQ(sent.start_time_unix_nano(), 1'000'000'001);
  EXPECT_EQ(sent.end_time_unix_nano(), 1'000'000'005);
  EXPECT_EQ(sent.flags(), 0x101);
  EXPECT_FALSE(sent.has_status());
}

TEST(FillRequestTest, TellsOfAParentInAnotherProcess) {
  Span span = Example();
  span.parent.bytes[0] = 9;
  span.remote_parent = true;
  span.state = "a=1";
  const otlp::v1::Span sent = Sent(span);
  EXPECT_EQ(sent.parent_span_id(), "\x09" + std::string(7, '\0'));
  EXPECT_EQ(sent.trace_state(), "a=1");
  EXPECT_EQ(sent.flags(), 0x301);
}

TEST(FillRequestTest, WritesEachTypeOfAttribute) {
  Span span = Example();
  span.attributes = {{"a", int64_t{-3}}, {"b", 0.5}, {"c", std::string("x")}};
  const otlp::v1::Span sent = Sent(span);
  ASSERT_EQ(sent.attributes_size(), 3);
  EXPECT_EQ(sent.attributes(0).key(), "a");
  EXPECT_EQ(sent.attributes(0).value().int_value(), -3);
  EXPECT_EQ(sent.attributes(1).value().double_value(), 0.5);
  EXPECT_EQ(sent.attributes(2).value().string_value(), "x");
}

TEST(FillRequestTest, WritesTheErrorOfAFailedSpan) {
  Span span = Example();
  span.failed = true;
  span.error = "out of memory";
  const otlp::v1::Span sent = Sent(span);
  EXPECT_EQ(sent.status().code(), otlp::v1::SpanStatus::ERROR);
  EXPECT_EQ(sent.status().message(), "out of memory");
}

TEST(FillRequestTest, ASpanEndsNotBeforeItsStart) {
  Span span = Example();
  span.end = span.start - absl::Seconds(1);
  EXPECT_EQ(Sent(span).end_time_unix_nano(), Sent(span).start_time_unix_nano());
}

TEST(FillRequestTest, CutsLongTextsAndReplacesBytesThatAreNoText) {
  Span span = Example();
  span.attributes = {{"long", std::string(5000, 'x')},
                     {"odd", std::string("a\xff")}};
  const otlp::v1::Span sent = Sent(span);
  EXPECT_EQ(sent.attributes(0).value().string_value().size(), kLongestSpanText);
  EXPECT_EQ(sent.attributes(1).value().string_value(), "a?");
}

// The bytes of a span with every field that is written, by the numbers and wire
// types of the protocol: a change of the message would break collectors.
TEST(FillRequestTest, HasTheWireFormatOfTheProtocol) {
  otlp::v1::Span span;
  span.set_trace_id("T");
  span.set_span_id("S");
  span.set_trace_state("s");
  span.set_parent_span_id("P");
  span.set_name("n");
  span.set_kind(otlp::v1::Span::SERVER);
  span.set_start_time_unix_nano(1);
  span.set_end_time_unix_nano(2);
  span.mutable_status()->set_message("m");
  span.mutable_status()->set_code(otlp::v1::SpanStatus::ERROR);
  span.set_flags(1);
  const std::string fixed1("\x01\0\0\0\0\0\0\0", 8);
  const std::string fixed2("\x02\0\0\0\0\0\0\0", 8);
  const std::string flags("\x01\0\0\0", 4);
  EXPECT_EQ(span.SerializeAsString(),
            "\x0a\x01T\x12\x01S\x1a\x01s\x22\x01P\x2a\x01n\x30\x02\x39" +
                fixed1 + "\x41" + fixed2 + "\x7a\x05\x12\x01m\x18\x02" +
                "\x85\x01" + flags);
}

}  // namespace
}  // namespace gpupool::server
