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

// Reads the pickle in parts of so many bytes.
absl::StatusOr<SegmentList> SegmentsOf(absl::string_view pickle,
                                       size_t part = 1 << 20,
                                       size_t max_bytes = kMaxSegmentsBytes) {
  SegmentsReader reader(max_bytes);
  for (size_t at = 0; at < pickle.size(); at += part) {
    if (!reader.Append(pickle.substr(at, part))) break;
  }
  return reader.Finish();
}

TEST(SnapshotSegmentsTest, AreAPickleOfTheirOwn) {
  for (size_t part : {1, 2, 3, 7, 1000}) {
    const auto segments = SegmentsOf(Dump(Segments()), part);
    ASSERT_TRUE(segments.ok()) << segments.status();
    EXPECT_EQ(segments->pickle, absl::StrCat("\x80\x02", Segments(), "."));
    EXPECT_FALSE(segments->is_cut);
  }
}

// The events that follow may be many more.
TEST(SnapshotSegmentsTest, NothingIsReadAfterTheList) {
  const std::string dump = Dump(Segments());
  constexpr size_t kBytesBefore = 17;
  SegmentsReader reader;
  size_t wanted = 0;
  while (wanted < dump.size() && reader.Append(dump.substr(wanted, 1))) {
    ++wanted;
  }
  // One byte after the list tells that it has ended.
  EXPECT_EQ(wanted, kBytesBefore + Segments().size());
}

TEST(SnapshotSegmentsTest, ALongListIsCutAfterAWholeSegment) {
  const auto segment = [](char number) {
    return absl::StrCat("}(", Key("n"), "K", std::string(1, number), "u");
  };
  // Two batches.
  const std::string list =
      absl::StrCat("](", segment(1), segment(2), "e(", segment(3), "e");
  const size_t bytes = segment(1).size();
  struct Case {
    size_t max_bytes;
    uint64_t segments;
    std::string expected;
  };
  for (const Case& one : {
           Case{1 + bytes, 0, "]"},
           Case{2 + bytes, 1, absl::StrCat("](", segment(1), "e")},
           Case{1 + 2 * bytes, 1, absl::StrCat("](", segment(1), "e")},
           Case{list.size() - 2, 2,
                absl::StrCat("](", segment(1), segment(2), "e")},
           Case{list.size() - 1, 3, list},
       }) {
    for (size_t part : {1, 5, 1000}) {
      const auto cut = SegmentsOf(Dump(list), part, one.max_bytes);
      ASSERT_TRUE(cut.ok()) << cut.status();
      EXPECT_TRUE(cut->is_cut) << one.max_bytes;
      EXPECT_EQ(cut->segments, one.segments) << one.max_bytes;
      EXPECT_EQ(cut->pickle, absl::StrCat("\x80\x02", one.expected, "."));
    }
  }
  EXPECT_FALSE(SegmentsOf(Dump(list), 1, list.size() + 1)->is_cut);
}

TEST(SnapshotSegmentsTest, MayBeNone) {
  const auto segments = SegmentsOf(Dump("]"));
  ASSERT_TRUE(segments.ok()) << segments.status();
  EXPECT_EQ(segments->pickle, "\x80\x02].");
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
