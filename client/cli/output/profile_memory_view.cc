#include "client/cli/output/profile_memory_view.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/cli/output/svg_chart.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostColumns = 1000;
constexpr size_t kListedValues = 8;

// Returns "op 12 of 40, conv2d of block0".
std::string PeakPlace(const ProgramMemory& memory) {
  const NodeMemory& node = memory.nodes[memory.peak];
  std::string text = absl::StrCat("op ", memory.peak + 1, " of ",
                                  memory.nodes.size(), ", ", node.op);
  if (node.layer != node.op) absl::StrAppend(&text, " of ", node.layer);
  return text;
}

std::string ValueText(const PeakValue& value) {
  std::string text = absl::StrCat(FormatBytes(value.bytes), "  ", value.kind);
  if (!value.op.empty()) absl::StrAppend(&text, " of ", value.op);
  if (!value.layer.empty()) absl::StrAppend(&text, " in ", value.layer);
  if (!value.name.empty()) absl::StrAppend(&text, " (", value.name, ")");
  return text;
}

struct MemoryLines {
  SvgPoints planned;
  SvgPoints measured;
};

// Returns the bytes as stairs, each node one unit wide.
MemoryLines LinesOf(const ProgramMemory& memory, const SvgByteUnit& unit) {
  MemoryLines lines;
  const size_t count = memory.nodes.size();
  const size_t group = (count + kMostColumns - 1) / kMostColumns;
  for (size_t begin = 0; begin < count; begin += group) {
    const size_t end = std::min(begin + group, count);
    uint64_t planned = 0, measured = 0;
    for (size_t i = begin; i < end; ++i) {
      planned = std::max(planned, memory.nodes[i].planned);
      measured = std::max(measured, memory.nodes[i].measured);
    }
    for (const size_t edge : {begin, end}) {
      const auto x = static_cast<double>(edge);
      lines.planned.emplace_back(x, unit.Of(planned));
      lines.measured.emplace_back(x, unit.Of(measured));
    }
  }
  return lines;
}

SvgChart ChartOf(const ProgramMemory& memory) {
  const uint64_t needed = memory.arena_bytes + memory.outside_bytes;
  const uint64_t most = std::max(needed, memory.most_measured());
  const SvgByteUnit unit = ByteUnitFor(most);
  const auto count = static_cast<double>(memory.nodes.size());
  const uint64_t peak = memory.nodes[memory.peak].planned;
  MemoryLines lines = LinesOf(memory, unit);
  return {.title = absl::StrCat("Memory of a ", memory.program),
          .horizontal = LinearAxis(count, "ops in the order in which they run"),
          .vertical = LinearAxis(unit.Of(most), unit.name),
          .lines = {std::move(lines.planned),
                    std::move(lines.measured),
                    {{0, unit.Of(needed)}, {count, unit.Of(needed)}}},
          .labels = {{static_cast<double>(memory.peak) + 0.5, unit.Of(peak),
                      absl::StrCat("peak ", FormatBytes(peak), " at op ",
                                   memory.peak + 1)}}};
}

std::vector<std::string> NotesOf(const ProgramMemory& memory) {
  std::vector<std::string> notes = {absl::StrCat(
      "At the peak of a ", memory.program, " (", PeakPlace(memory), ") live:")};
  const size_t listed = std::min(memory.values.size(), kListedValues);
  for (size_t i = 0; i < listed; ++i) {
    notes.push_back(ValueText(memory.values[i]));
  }
  notes.push_back(absl::StrCat(FormatBytes(memory.outside_bytes),
                               "  weights and all else beside the arena"));
  return notes;
}

void PrintValues(const Stream& stream, const ProgramMemory& memory,
                 bool headers) {
  Table table({{"BYTES", Table::kRight}, {"KIND"}, {"OP"}, {"LAYER OR NAME"}});
  const size_t listed = std::min(memory.values.size(), kListedValues);
  for (size_t i = 0; i < listed; ++i) {
    const PeakValue& value = memory.values[i];
    table.AddRow({FormatBytes(value.bytes), value.kind, value.op,
                  value.layer.empty() ? value.name : value.layer});
  }
  table.Print(stream, headers);
}

}  // namespace

void PrintProfileMemory(const Stream& stream,
                        const std::vector<ProgramMemory>& programs,
                        bool headers) {
  for (const ProgramMemory& memory : programs) {
    *stream.stream << absl::StrCat(
        "\nmemory of '", memory.program, "': the plan needs ",
        FormatBytes(memory.arena_bytes + memory.outside_bytes), ", of which ",
        FormatBytes(memory.arena_bytes), " is the arena; at most ",
        FormatBytes(memory.nodes[memory.peak].planned), " live, at ",
        PeakPlace(memory), "; the allocator gave at most ",
        FormatBytes(memory.most_measured()), "\n");
    PrintValues(stream, memory, headers);
  }
}

std::string ProfileMemoryPicture(const std::vector<ProgramMemory>& programs) {
  std::vector<SvgChart> charts;
  std::vector<std::string> notes;
  for (const ProgramMemory& memory : programs) {
    charts.push_back(ChartOf(memory));
    for (std::string& note : NotesOf(memory)) notes.push_back(std::move(note));
  }
  return SvgPicture(
      {"planned: live at the op", "measured: allocated", "needed by the plan"},
      charts, {.notes = std::move(notes), .dashed = {false, false, true}});
}

}  // namespace gpupool::client
