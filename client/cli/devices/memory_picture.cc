#include "client/cli/devices/memory_picture.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/svg_chart.h"
#include "client/cli/output/table.h"
#include "client/text/counted.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

using Segment = v1::MemorySnapshot::Segment;
using MappedBlock = v1::MemorySnapshot::Block;

constexpr size_t kMostRows = 200;
constexpr double kMostBars = 20'000;
constexpr double kMapWidth = 1200;
constexpr double kMapLeft = 210;
constexpr double kBarsWidth = kMapWidth - kMapLeft - 20;
constexpr double kBarHeight = 18;
constexpr double kRowPitch = 23;
constexpr double kLineHeight = 20;
constexpr double kLetterWidth = 7;
constexpr double kTimelineWidth = 760;
constexpr double kTimelineHeight = 310;

struct BlockKind {
  const char* name;  // the use in the owner's label
  const char* color;
};
// Tints that colour-blind people can tell apart, light enough for dark text.
constexpr BlockKind kKinds[] = {
    {"weights", "#7fb8d8"},
    {"optimizer", "#eaae7f"},
    {"arena", "#7fceb9"},
    {"packed", "#e5bcd3"},
    {"next batch", "#f2cf7f"},
    {"passed on", "#b9c6f0"},
    {"other", "#c9b998"},
    {"given back, a stream still uses it", "#a8a8a8"},
    {"free", "#efefef"}};
constexpr size_t kOther = 6, kLeaving = 7, kFree = 8;
using BytesByKind = std::array<uint64_t, std::size(kKinds)>;

size_t KindOf(const MappedBlock& block) {
  if (block.free()) return kFree;
  if (block.owner().empty()) return kLeaving;
  for (size_t i = 0; i < kOther; ++i) {
    if (absl::EndsWith(block.owner(), absl::StrCat(" / ", kKinds[i].name))) {
      return i;
    }
  }
  return kOther;
}

// Neighbouring blocks that are one bar.
struct Bar {
  uint64_t begin = 0;
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  BytesByKind by_kind = {};
  std::string name;  // of the only block

  void Add(const MappedBlock& block) {
    if (blocks++ == 0) begin = block.offset();
    bytes += block.bytes();
    const size_t kind = KindOf(block);
    by_kind[kind] += block.bytes();
    name = block.owner().empty() ? kKinds[kind].name : block.owner();
  }
  size_t kind() const {
    return static_cast<size_t>(
        std::max_element(by_kind.begin(), by_kind.end()) - by_kind.begin());
  }
};

// Draws the rows. Coordinates are in pixels.
class SegmentRows {
 public:
  explicit SegmentRows(const std::vector<const Segment*>& segments) {
    uint64_t largest = 1;
    for (const Segment* segment : segments) {
      largest = std::max(largest, segment->bytes());
    }
    scale_ = kBarsWidth / static_cast<double>(largest);
    const auto rows = static_cast<double>(segments.size());
    narrowest_ = std::max(1.0, rows * kBarsWidth / kMostBars);
  }

  void Draw(const Segment& segment, double y) {
    absl::StrAppendFormat(&svg_,
                          "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"end\">"
                          "0x%x  %s</text>\n",
                          kMapLeft - 8, y + 13, segment.address(),
                          FormatBytes(segment.bytes()));
    Bar bar;
    for (const MappedBlock& block : segment.blocks()) {
      // A wide block is never part of a bar of narrow ones.
      if (WidthOf(block.bytes()) >= narrowest_) Flush(bar, y);
      bar.Add(block);
      if (WidthOf(bar.bytes) >= narrowest_) Flush(bar, y);
    }
    Flush(bar, y);
  }

  const std::string& svg() const { return svg_; }

 private:
  double WidthOf(uint64_t bytes) const {
    return static_cast<double>(bytes) * scale_;
  }

  void Flush(Bar& bar, double y) {
    if (bar.blocks == 0) return;
    const std::string name =
        bar.blocks == 1
            ? bar.name
            : absl::StrCat(Counted(bar.blocks, "block"), ", most bytes ",
                           kKinds[bar.kind()].name);
    const double x = kMapLeft + WidthOf(bar.begin);
    const double width = std::max(WidthOf(bar.bytes), 0.5);
    absl::StrAppendFormat(
        &svg_,
        "<g><title>%s, %s at offset %s</title><rect x=\"%.2f\" y=\"%.0f\" "
        "width=\"%.2f\" height=\"%.0f\" class=\"k%d\"/>",
        SvgText(name), FormatBytes(bar.bytes), FormatBytes(bar.begin), x, y,
        width, kBarHeight, bar.kind());
    const auto letters = static_cast<size_t>(width / kLetterWidth);
    if (letters >= 4 && bar.blocks == 1) {
      absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.0f\">%s</text>",
                            x + 3, y + 13, SvgText(Fit(name, letters - 1)));
    }
    svg_ += "</g>\n";
    bar = Bar();
  }

  double scale_ = 1;
  double narrowest_ = 1;
  std::string svg_;
};

std::string MapStyle() {
  std::string css =
      "text{font:12px sans-serif;fill:#333}"
      "rect[class^=k]{stroke:#666;stroke-width:.3}";
  for (size_t i = 0; i < std::size(kKinds); ++i) {
    absl::StrAppend(&css, ".k", i, "{fill:", kKinds[i].color, "}");
  }
  return absl::StrCat("<style>", css, "</style>\n");
}

BytesByKind BytesOf(const v1::MemorySnapshot& snapshot) {
  BytesByKind bytes = {};
  for (const Segment& segment : snapshot.segments()) {
    for (const MappedBlock& block : segment.blocks()) {
      bytes[KindOf(block)] += block.bytes();
    }
  }
  return bytes;
}

// Appends the kinds that are there, with their bytes. Returns where the next
// line is.
double DrawKinds(const BytesByKind& bytes, double y, std::string& svg) {
  double x = 10;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] == 0) continue;
    const std::string text =
        absl::StrCat(kKinds[i].name, " ", FormatBytes(bytes[i]));
    const double width = 34 + kLetterWidth * static_cast<double>(text.size());
    if (x > 10 && x + width > kMapWidth) {
      x = 10;
      y += kLineHeight;
    }
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%.0f\" y=\"%.0f\" width=\"12\" "
                          "height=\"12\" class=\"k%d\"/><text x=\"%.0f\" "
                          "y=\"%.0f\">%s</text>\n",
                          x, y, i, x + 18, y + 11, SvgText(text));
    x += width;
  }
  return y + kLineHeight;
}

// Returns the segments of the picture by their addresses.
std::vector<const Segment*> ShownSegments(const v1::MemorySnapshot& snapshot) {
  std::vector<const Segment*> shown;
  for (const Segment& segment : snapshot.segments()) shown.push_back(&segment);
  if (shown.size() <= kMostRows) return shown;
  std::stable_sort(shown.begin(), shown.end(),
                   [](const Segment* a, const Segment* b) {
                     return a->bytes() > b->bytes();
                   });
  shown.resize(kMostRows);
  std::sort(shown.begin(), shown.end(), [](const Segment* a, const Segment* b) {
    return a->address() < b->address();
  });
  return shown;
}

double SecondsOf(const google::protobuf::Timestamp& time) {
  return static_cast<double>(time.seconds()) + time.nanos() / 1e9;
}

// Returns the bytes over the history as a picture of its own.
std::string TimelinePicture(const v1::MemorySnapshot& snapshot) {
  uint64_t most = 0;
  for (const v1::MemoryPoint& point : snapshot.timeline()) {
    most = std::max({most, point.allocated_bytes(), point.reserved_bytes()});
  }
  const SvgByteUnit unit = ByteUnitFor(most);
  SvgPoints allocated, reserved;
  for (const v1::MemoryPoint& point : snapshot.timeline()) {
    const double seconds =
        SecondsOf(point.end_time()) - SecondsOf(snapshot.time());
    allocated.emplace_back(seconds, unit.Of(point.allocated_bytes()));
    reserved.emplace_back(seconds, unit.Of(point.reserved_bytes()));
  }
  const double first = std::min(allocated.front().first, 0.0);
  return SvgPicture(
      {"allocated", "reserved"},
      {{.title = absl::StrCat("History of ", snapshot.device()),
        .horizontal = RangeAxis(first, 0, "seconds; the snapshot is at 0"),
        .vertical = LinearAxis(unit.Of(most), unit.name),
        .lines = {std::move(allocated), std::move(reserved)}}});
}

std::string LineOfText(double y, absl::string_view text) {
  return absl::StrFormat("<text x=\"10\" y=\"%.0f\">%s</text>\n", y,
                         SvgText(text));
}

// Appends the timeline, or how to get one. Returns where the picture ends.
double DrawTimeline(const v1::MemorySnapshot& snapshot, double y,
                    std::string& svg) {
  if (snapshot.timeline().empty()) {
    svg += LineOfText(
        y + 14,
        absl::StrCat("No history is recorded; `gpupool devices history ",
                     snapshot.device(), " on` begins one."));
    return y + kLineHeight;
  }
  // A picture inside another one has a place and a size, which it fits.
  absl::StrAppendFormat(
      &svg, "<svg y=\"%.0f\" width=\"%.0f\" height=\"%.0f\">\n%s</svg>\n", y,
      kTimelineWidth, kTimelineHeight, TimelinePicture(snapshot));
  return y + kTimelineHeight;
}

}  // namespace

std::string SnapshotPicture(const v1::MemorySnapshot& snapshot) {
  const std::vector<const Segment*> shown = ShownSegments(snapshot);
  const BytesByKind bytes = BytesOf(snapshot);
  uint64_t reserved = 0;
  for (const uint64_t part : bytes) reserved += part;
  std::string body = LineOfText(
      18,
      absl::StrCat(
          "Memory of ", snapshot.device(), ": ", FormatBytes(reserved), " in ",
          Counted(static_cast<uint64_t>(snapshot.segments_size()), "segment")));
  double y = DrawKinds(bytes, 28, body) + 8;
  SegmentRows rows(shown);
  for (const Segment* segment : shown) {
    rows.Draw(*segment, y);
    y += kRowPitch;
  }
  body += rows.svg();
  const size_t hidden =
      static_cast<size_t>(snapshot.segments_size()) - shown.size();
  if (hidden > 0) {
    body += LineOfText(y + 14,
                       absl::StrCat(hidden, " smaller segments are left out"));
    y += kLineHeight;
  }
  const double bottom = DrawTimeline(snapshot, y + 10, body);
  return absl::StrCat(
      absl::StrFormat("<svg xmlns=\"http://www.w3.org/2000/svg\" "
                      "viewBox=\"0 0 %.0f %.0f\">\n",
                      kMapWidth, bottom + 10),
      MapStyle(), "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      body, "</svg>\n");
}

}  // namespace gpupool::client
