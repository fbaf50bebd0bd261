#include "server/trace/trace_context.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kSpan[] = "b7ad6b7169203331";

std::string Header(const std::string& version, const std::string& flags) {
  return absl::StrCat(version, "-", kTrace, "-", kSpan, "-", flags);
}

std::optional<SpanContext> Read(const std::string& parent,
                                const std::string& state = "") {
  return ReadTraceHeaders({.parent = parent, .state = state});
}

TEST(ReadTraceHeadersTest, ReadsIdsAndTheFlag) {
  const auto context = Read(Header("00", "01"));
  ASSERT_TRUE(context.has_value());
  EXPECT_EQ(context->trace.bytes[0], 0x0a);
  EXPECT_EQ(context->trace.bytes[15], 0x9c);
  EXPECT_EQ(context->span.bytes[0], 0xb7);
  EXPECT_EQ(context->span.bytes[7], 0x31);
  EXPECT_TRUE(context->sampled);
  EXPECT_EQ(TraceParentOf(*context), Header("00", "01"));
}

TEST(ReadTraceHeadersTest, OnlyTheLowestFlagCounts) {
  EXPECT_FALSE(Read(Header("00", "00"))->sampled);
  EXPECT_FALSE(Read(Header("00", "fe"))->sampled);
  EXPECT_TRUE(Read(Header("00", "ff"))->sampled);
}

TEST(ReadTraceHeadersTest, RefusesWhatTheStandardForbids) {
  const std::string zeros_trace(32, '0');
  const std::string zeros_span(16, '0');
  for (const std::string& header : std::initializer_list<std::string>{
           "", "00", Header("ff", "01"),
           absl::StrCat("00-", zeros_trace, "-", kSpan, "-01"),
           absl::StrCat("00-", kTrace, "-", zeros_span, "-01"),
           Header("00", "01") + "-more", Header("00", "0"), Header("00", "0g"),
           Header("0", "01") + "0",
           absl::StrCat("00_", kTrace, "-", kSpan, "-01"),
           absl::StrCat("00-", kTrace, "+", kSpan, "-01"),
           " " + Header("00", "01")}) {
    EXPECT_FALSE(Read(header).has_value()) << header;
  }
}

TEST(ReadTraceHeadersTest, RefusesUpperCase) {
  const std::string header = Header("00", "01");
  for (const size_t place : {3, 36}) {
    std::string upper = header;
    upper[place] = 'A';
    EXPECT_FALSE(Read(upper).has_value()) << upper;
    upper[place] = 'a';
    EXPECT_TRUE(Read(upper).has_value()) << upper;
  }
  EXPECT_FALSE(Read(Header("0A", "01")).has_value());
}

TEST(ReadTraceHeadersTest, ReadsTheKnownPartOfLaterVersions) {
  EXPECT_TRUE(Read(Header("01", "01"))->sampled);
  EXPECT_TRUE(Read(Header("cc", "01") + "-what-the-future-holds")->sampled);
  EXPECT_FALSE(Read(Header("cc", "01") + "x").has_value());
}

TEST(ReadTraceHeadersTest, RefusesAParentThatIsTooLong) {
  std::string header = Header("cc", "01") + "-";
  header.append(512 - header.size(), 'x');
  EXPECT_TRUE(Read(header).has_value());
  EXPECT_FALSE(Read(header + "x").has_value());
}

TEST(ReadTraceHeadersTest, PassesTheStateOfASampledSpanOn) {
  EXPECT_EQ(Read(Header("00", "01"), "a=1,b=2")->state, "a=1,b=2");
  EXPECT_EQ(Read(Header("00", "00"), "a=1,b=2")->state, "");
}

TEST(ReadTraceHeadersTest, LeavesOutAStateThatIsTooLongOrNoText) {
  EXPECT_EQ(Read(Header("00", "01"), std::string(512, 'x'))->state.size(), 512);
  EXPECT_EQ(Read(Header("00", "01"), std::string(513, 'x'))->state, "");
  EXPECT_EQ(Read(Header("00", "01"), "a=\x01")->state, "");
}

TEST(DerivedSpanIdTest, IsTheSameAgainAndDiffersByTraceAndKey) {
  const TraceId trace = Read(Header("00", "01"))->trace;
  EXPECT_EQ(DerivedSpanId(trace, "job/1"), DerivedSpanId(trace, "job/1"));
  EXPECT_NE(DerivedSpanId(trace, "job/1"), DerivedSpanId(trace, "job/2"));
  TraceId other = trace;
  ++other.bytes[7];
  EXPECT_NE(DerivedSpanId(trace, "job/1"), DerivedSpanId(other, "job/1"));
  EXPECT_TRUE(IsSet(DerivedSpanId(trace, "")));
}

}  // namespace
}  // namespace gpupool::server
