#include "client/files/snapshot_segments.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using std::string_literals::operator""s;

std::string Key(const std::string& text) {
  return absl::StrCat("X", std::string(1, static_cast<char>(text.size())),
                      "\0\0\0"s, text);
}

std::string Dump(const std::string& segments) {
  return absl::StrCat("\x80\x02}(", Key("segments"), segments,
                      Key("device_traces"), "](](}(", Key("addr"),
                      "K\x07ueeu.");
}

// Two batches with every kind of value, in nested lists and dictionaries.
// The texts hold the bytes of opcodes.
std::string Segments() {
  return absl::StrCat("](}(", Key("address"), "\x8a\x08(((((((u", Key("n"),
                      "M\x01\x02", Key("m"), "J((ee", Key("pair"),
                      "K\0K\x01\x86"s, Key("flag"), "\x88", Key("blocks"),
                      "](}(", Key("owner"), Key("eu].(device_traces"), "ue",
                      Key("none"), "]", "uK\x05", "e(K\x06", "\x89", "e");
}

TEST(SnapshotSegmentsTest, AreAPickleOfTheirOwn) {
  const auto segments = SegmentsOf(Dump(Segments()));
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_EQ(*segments, absl::StrCat("\x80\x02", Segments(), "."));
}

TEST(SnapshotSegmentsTest, MayBeNone) {
  const auto segments = SegmentsOf(Dump("]"));
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_EQ(*segments, "\x80\x02].");
}

TEST(SnapshotSegmentsTest, ADamagedDumpIsRefused) {
  const std::string whole = Dump(Segments());
  const size_t end = whole.size() - Dump("").size() + 18;
  for (size_t bytes = 0; bytes < end; ++bytes) {
    EXPECT_FALSE(SegmentsOf(whole.substr(0, bytes)).ok()) << bytes;
  }
  std::string unknown = whole;
  unknown[unknown.find("M\x01\x02")] = 'Z';
  EXPECT_THAT(SegmentsOf(unknown).status().message(),
              HasSubstr("leave out --segments"));
  EXPECT_FALSE(SegmentsOf("cpu:0").ok());
}

}  // namespace
}  // namespace gpupool::client
