#include "client/cli/devices/memory_watch.h"

#include <algorithm>
#include <optional>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/output/svg_chart.h"
#include "client/cli/output/table.h"
#include "client/files/partial_file.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

double Mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

void DropEverySecond(std::vector<std::pair<double, double>>& points) {
  for (size_t i = 0; 2 * i < points.size(); ++i) points[i] = points[2 * i];
  points.resize((points.size() + 1) / 2);
}

double MostOf(const std::vector<std::pair<double, double>>& points) {
  double most = 0;
  for (const auto& [seconds, value] : points) most = std::max(most, value);
  return most;
}

// Prints the header with the first row only.
void PrintMemoryRow(const Context& context, const v1::MemoryStats& stats,
                    bool first) {
  Table table({{"ALLOCATED", Table::kRight},
               {"RESERVED", Table::kRight},
               {"PEAK", Table::kRight},
               {"LIMIT", Table::kRight},
               {"LARGEST OWNER"}});
  table.AddRow({FormatBytes(stats.allocated_bytes()),
                FormatBytes(stats.reserved_bytes()),
                FormatBytes(stats.peak_allocated_bytes()),
                FormatBytes(stats.limit_bytes()),
                stats.owners().empty()
                    ? ""
                    : absl::StrCat(stats.owners(0).owner(), ": ",
                                   FormatBytes(stats.owners(0).bytes()))});
  table.Print(context.out(), first && context.headers());
}

// State of one watch.
struct MemoryWatch {
  absl::Time begin = absl::Now();
  MemoryCurve curve;
  std::optional<std::string> last;  // serialized statistics
  bool found = true;
};

// Takes the devices of one message. Returns whether the watch goes on.
bool TakeDevices(const Context& context, const std::string& name,
                 const v1::ListDevicesResponse& devices, MemoryWatch& watch) {
  const auto device = std::find_if(
      devices.devices().begin(), devices.devices().end(),
      [&](const v1::Device& candidate) { return candidate.name() == name; });
  watch.found = device != devices.devices().end();
  if (!watch.found) return false;
  const v1::MemoryStats& stats = device->memory();
  std::string now = stats.SerializeAsString();
  if (watch.last == now) return true;
  const bool first = !watch.last.has_value();
  watch.last = std::move(now);
  watch.curve.Add(absl::ToDoubleSeconds(absl::Now() - watch.begin), stats);
  std::ostream& out = *context.out().stream;
  if (context.options().output == OutputFormat::kJson) {
    out << MessageToJson(stats, false) << "\n";
  } else {
    context.Print(stats, [&] { PrintMemoryRow(context, stats, first); });
  }
  out.flush();
  return out.good();
}

}  // namespace

void MemoryCurve::Add(double seconds, const v1::MemoryStats& stats) {
  if (seen_++ % stride_ != 0) return;
  if (allocated_.size() == kMostPoints) {
    DropEverySecond(allocated_);
    DropEverySecond(reserved_);
    stride_ *= 2;
  }
  allocated_.emplace_back(seconds, Mebibytes(stats.allocated_bytes()));
  reserved_.emplace_back(seconds, Mebibytes(stats.reserved_bytes()));
}

std::string MemoryCurve::Picture(const std::string& device) const {
  const double most = std::max(MostOf(allocated_), MostOf(reserved_));
  const double seconds = allocated_.empty() ? 0 : allocated_.back().first;
  return SvgPicture({"allocated", "reserved"},
                    {{absl::StrCat("Memory of ", device),
                      LinearAxis(std::max(seconds, 1.0), "seconds"),
                      LinearAxis(std::max(most, 1.0), "MiB"),
                      {allocated_, reserved_},
                      {allocated_.size() < 100, reserved_.size() < 100}}});
}

int WatchMemory(Context& context, const MemoryWatchOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::WatchDevicesRequest request;
  request.set_interval_seconds(options.interval_seconds);
  MemoryWatch watch;
  const absl::Status status = (*client)->WatchDevices(
      request, context.stop(), [&](const v1::ListDevicesResponse& devices) {
        return TakeDevices(context, options.device, devices, watch);
      });
  if (!watch.found) {
    return context.Fail(absl::NotFoundError(absl::StrCat(
        "there is no device \"", options.device, "\"; see `gpupool devices`")));
  }
  if (!options.file.empty() && watch.curve.size() > 0) {
    const absl::Status written =
        WriteWholeFile(options.file, watch.curve.Picture(options.device));
    if (!written.ok()) return context.Fail(written);
  }
  if (context.stop().stop_requested()) return kOk;  // the only way to end it
  return status.ok() ? kOk : context.Fail(status);
}

}  // namespace gpupool::client
