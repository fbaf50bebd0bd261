#include "client/cli/devices/bench_view.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "client/cli/output/svg_chart.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

using BenchMessage = v1::DeviceBench;

constexpr double kMostRate = 1e18;  // of bytes, in texts

std::string BenchTimeText(double seconds) {
  if (seconds < 1e-6) return absl::StrFormat("%.3g ns", seconds * 1e9);
  if (seconds < 1e-3) return absl::StrFormat("%.3g us", seconds * 1e6);
  if (seconds < 1) return absl::StrFormat("%.3g ms", seconds * 1e3);
  return absl::StrFormat("%.3g s", seconds);
}

std::string CopyName(const BenchMessage::Copy& copy) {
  const std::string memory = copy.pinned() ? ", pinned" : "";
  switch (copy.path()) {
    case BenchMessage::TO_DEVICE:
      return absl::StrCat("to device", memory);
    case BenchMessage::FROM_DEVICE:
      return absl::StrCat("from device", memory);
    default:
      return "on device";
  }
}

double CopyRate(const BenchMessage::Copy& copy) {
  return copy.seconds() > 0 ? static_cast<double>(copy.bytes()) / copy.seconds()
                            : 0;
}

// The points of one chart by the names of its lines, in the order in which the
// lines began.
class BenchLines {
 public:
  // Adds a point unless a number has no logarithm.
  void Add(const std::string& name, double x, double y) {
    if (!(x > 0) || !(y > 0)) return;
    if (!points_.contains(name)) names_.push_back(name);
    points_[name].emplace_back(std::log10(x), std::log10(y));
  }
  const std::vector<std::string>& names() const { return names_; }
  bool empty() const { return names_.empty(); }

  // Returns the chart, whose first lines are `before` empty ones: those of the
  // legend before these.
  SvgChart Chart(const std::string& title, const std::string& horizontal,
                 const std::string& vertical, size_t before) const {
    double bounds[4] = {1e300, -1e300, 1e300, -1e300};
    std::vector<SvgPoints> lines(before);
    for (const std::string& name : names_) {
      lines.push_back(points_.at(name));
      for (const auto& [x, y] : lines.back()) {
        bounds[0] = std::min(bounds[0], x);
        bounds[1] = std::max(bounds[1], x);
        bounds[2] = std::min(bounds[2], y);
        bounds[3] = std::max(bounds[3], y);
      }
    }
    return {title,
            LogarithmicAxis(std::pow(10, bounds[0]), std::pow(10, bounds[1]),
                            horizontal),
            LogarithmicAxis(std::pow(10, bounds[2]), std::pow(10, bounds[3]),
                            vertical),
            lines, std::vector<bool>(lines.size(), true)};
  }

 private:
  std::vector<std::string> names_;
  std::map<std::string, SvgPoints> points_;
};

}  // namespace

void PrintBench(const Stream& stream, const v1::DeviceBench& bench,
                bool headers) {
  Table table({{"MEASUREMENT"},
               {"SIZE", Table::kRight},
               {"TIME", Table::kRight},
               {"RATE", Table::kRight}});
  for (const BenchMessage::Copy& copy : bench.copies()) {
    const double rate = std::min(CopyRate(copy), kMostRate);
    table.AddRow(
        {absl::StrCat("copy ", CopyName(copy)), FormatBytes(copy.bytes()),
         BenchTimeText(copy.seconds()),
         absl::StrCat(FormatBytes(static_cast<uint64_t>(rate)), "/s")});
  }
  for (const BenchMessage::Product& product : bench.products()) {
    table.AddRow({absl::StrCat(product.data_type(), " product"),
                  absl::StrCat(product.size(), " rows"),
                  BenchTimeText(product.seconds()),
                  absl::StrCat(FormatCount(product.flops()), "FLOP/s")});
  }
  for (const BenchMessage::Allocation& allocation : bench.allocations()) {
    table.AddRow({"allocation and free", FormatBytes(allocation.bytes()),
                  BenchTimeText(allocation.seconds()), ""});
  }
  table.Print(stream, headers);
  if (bench.beside_work()) {
    *stream.stream << "measured beside other work of the device: the numbers "
                      "may be lower than without it\n";
  }
  for (const std::string& reason : bench.skipped()) {
    *stream.stream << "left out: " << reason << "\n";
  }
}

std::string BenchPicture(const v1::DeviceBench& bench) {
  BenchLines copies, products, allocations;
  for (const BenchMessage::Copy& copy : bench.copies()) {
    copies.Add(CopyName(copy), static_cast<double>(copy.bytes()),
               CopyRate(copy) / 1e9);
  }
  for (const BenchMessage::Product& product : bench.products()) {
    products.Add(product.data_type(), product.size(), product.flops() / 1e9);
  }
  for (const BenchMessage::Allocation& allocation : bench.allocations()) {
    allocations.Add("allocation", static_cast<double>(allocation.bytes()),
                    allocation.seconds() * 1e9);
  }
  std::vector<std::string> legend;
  std::vector<SvgChart> charts;
  const auto add = [&](const BenchLines& lines, SvgChart chart) {
    charts.push_back(std::move(chart));
    legend.insert(legend.end(), lines.names().begin(), lines.names().end());
  };
  const std::string where = absl::StrCat(" of ", bench.device());
  if (!copies.empty()) {
    add(copies,
        copies.Chart("Copies" + where, "bytes", "GB a second", legend.size()));
  }
  if (!products.empty()) {
    add(products, products.Chart("Products" + where, "rows and columns",
                                 "GFLOP a second", legend.size()));
  }
  if (!allocations.empty()) {
    add(allocations,
        allocations.Chart("An allocation of cached memory and its free",
                          "bytes", "nanoseconds", legend.size()));
  }
  return SvgPicture(legend, charts);
}

}  // namespace gpupool::client
