#include "client/cli/output/profile_view.h"

#include <algorithm>
#include <map>
#include <memory>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "client/cli/output/profile_memory_view.h"
#include "client/cli/output/svg_chart.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr size_t kRows = 15;  // of a table; the rest is one row
constexpr double kFlameWidth = 1200;
constexpr double kRowHeight = 18;
constexpr double kNarrowest = 0.3;  // narrower bars are left out
constexpr double kLetter = 7;       // width of a letter, about
// Colours of the rows, from the top.
constexpr const char* kFlameColors[] = {"#d9d9d9", "#f4a582", "#fddbc7",
                                        "#fee391", "#fec44f", "#c7e9b4",
                                        "#a1dab4"};

std::string ProfileRate(double amount, double micros) {
  return amount > 0 && micros > 0 ? FormatCount(amount / micros * 1e6) : "";
}

void PrintGroups(const Stream& stream, const ProfileTrace& trace, bool by_layer,
                 bool headers) {
  Table table({{by_layer ? "LAYER" : "OP"},
               {"CALLS", Table::kRight},
               {"MS", Table::kRight},
               {"SHARE", Table::kRight},
               {"FLOPS", Table::kRight},
               {"FLOPS/S", Table::kRight},
               {"BYTES/S", Table::kRight}});
  const auto steps = static_cast<double>(trace.steps);
  const double all = trace.node_micros();
  const auto add = [&](const ProfileGroup& group) {
    table.AddRow(
        {group.name, absl::StrCat(group.calls / trace.steps),
         absl::StrFormat("%.3f", group.micros / steps / 1e3),
         absl::StrFormat("%.1f%%", all > 0 ? 100 * group.micros / all : 0),
         group.flops > 0 ? FormatCount(group.flops / steps) : "",
         ProfileRate(group.flops, group.micros),
         ProfileRate(group.bytes, group.micros)});
  };
  const std::vector<ProfileGroup> groups = GroupProfile(trace, by_layer);
  ProfileGroup rest;
  for (size_t i = 0; i < groups.size(); ++i) {
    if (i < kRows) {
      add(groups[i]);
      continue;
    }
    rest.calls += groups[i].calls;
    rest.micros += groups[i].micros;
    rest.flops += groups[i].flops;
    rest.bytes += groups[i].bytes;
  }
  if (groups.size() > kRows) {
    rest.name = absl::StrCat(groups.size() - kRows, " others");
    add(rest);
  }
  table.Print(stream, headers);
}

// A bar of the flame graph with those below it.
struct FlameBar {
  double micros = 0;
  std::map<std::string, std::unique_ptr<FlameBar>> below;

  FlameBar& Below(const std::string& name) {
    std::unique_ptr<FlameBar>& bar = below[name];
    if (bar == nullptr) bar = std::make_unique<FlameBar>();
    return *bar;
  }
};

// Draws bars; micros are those of all steps.
class Flame {
 public:
  explicit Flame(const ProfileTrace& trace)
      : scale_(kFlameWidth / std::max(trace.node_micros(), 1e-9)),
        steps_(static_cast<double>(trace.steps)),
        unit_(trace.unit) {}

  void Draw(const std::string& name, const FlameBar& bar, double x, int row) {
    const double width = bar.micros * scale_;
    if (width < kNarrowest) return;
    rows_ = std::max(rows_, row + 1);
    const double y = row * kRowHeight;
    absl::StrAppendFormat(
        &svg_,
        "<g><title>%s: %.3f ms a %s, %.1f%%</title><rect x=\"%.1f\" "
        "y=\"%.0f\" width=\"%.1f\" height=\"%.0f\" fill=\"%s\"/>",
        SvgText(name), bar.micros / steps_ / 1e3, SvgText(unit_),
        100 * width / kFlameWidth, x, y, width, kRowHeight - 1,
        kFlameColors[static_cast<size_t>(row) % std::size(kFlameColors)]);
    const auto letters = static_cast<size_t>(width / kLetter);
    if (letters >= 3) {
      absl::StrAppendFormat(&svg_, "<text x=\"%.1f\" y=\"%.0f\">%s</text>",
                            x + 3, y + 13, SvgText(Fit(name, letters)));
    }
    svg_ += "</g>\n";
    for (const auto& [below, child] : bar.below) {
      Draw(below, *child, x, row + 1);
      x += child->micros * scale_;
    }
  }

  std::string Take() const {
    return absl::StrFormat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\">\n"
        "<style>text{font:12px sans-serif}</style>\n%s</svg>\n",
        kFlameWidth, rows_ * kRowHeight, svg_);
  }

 private:
  const double scale_;
  const double steps_;
  const std::string unit_;
  int rows_ = 1;
  std::string svg_;
};

}  // namespace

void PrintProfile(const Stream& stream, const ProfileTrace& trace,
                  bool headers) {
  PrintGroups(stream, trace, false, headers);
  *stream.stream << "\n";
  PrintGroups(stream, trace, true, headers);
  *stream.stream << "\n" << ProfileAdvice(trace) << "\n";
  PrintProfileMemory(stream, trace.memory, headers);
}

std::string FlamePicture(const ProfileTrace& trace) {
  FlameBar root;
  for (const ProfiledNode& node : trace.nodes) {
    root.micros += node.micros;
    FlameBar* bar = &root;
    const auto descend = [&](const std::string& name) {
      bar = &bar->Below(name);
      bar->micros += node.micros;
    };
    for (const absl::string_view part :
         absl::StrSplit(node.layer, absl::ByAnyChar("./"), absl::SkipEmpty())) {
      descend(std::string(part));
    }
    if (node.layer != node.op) descend(node.op);
  }
  Flame flame(trace);
  flame.Draw(trace.unit, root, 0, 0);
  return flame.Take();
}

}  // namespace gpupool::client
