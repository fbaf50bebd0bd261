#include "client/cli/devices/device_view.h"

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/time/time.h"
#include "client/cli/output/table.h"
#include "client/text/units.h"

namespace gpupool::client {
namespace {

struct DeviceColumn {
  Table::Column column;
  std::string (*cell)(const v1::Device& device);
};

std::string Percent(double share) {
  return absl::StrFormat("%.0f%%", share * 100);
}

// Returns "used/total". A part is empty if the device does not report it.
template <typename Format>
std::string Pair(bool has_first, double first, bool has_second, double second,
                 Format format) {
  if (!has_first && !has_second) return "";
  return absl::StrCat(has_first ? format(first) : "-", "/",
                      has_second ? format(second) : "-");
}

std::string Watts(double watts) { return absl::StrFormat("%.0f W", watts); }
std::string Bytes(double bytes) {
  return FormatBytes(static_cast<uint64_t>(bytes));
}
std::string Count(double count) { return absl::StrFormat("%.0f", count); }

std::string State(const v1::Device& device) {
  if (device.state() == v1::DEVICE_READY && device.has_cools_until()) {
    return "cooling";
  }
  return absl::AsciiStrToLower(
      absl::StripPrefix(v1::DeviceState_Name(device.state()), "DEVICE_"));
}

std::string TimeText(const google::protobuf::Timestamp& time) {
  return absl::FormatTime(absl::RFC3339_sec,
                          absl::FromUnixSeconds(time.seconds()),
                          absl::LocalTimeZone());
}

std::string CoolingText(const v1::Device& device) {
  const uint32_t faults = device.consecutive_faults();
  return absl::StrCat(
      " starts no jobs until ", TimeText(device.cools_until()), " after ",
      faults > 1 ? absl::StrCat(faults, " consecutive faults, the last: ")
                 : std::string("a fault: "),
      device.last_fault());
}

// Returns " is reserved for research until ..., then for ...".
std::string ReservedText(const v1::Device& device) {
  return absl::StrCat(
      " is reserved for ",
      absl::StrJoin(device.reservations(), ", then for ",
                    [](std::string* text, const v1::DeviceReservation& one) {
                      absl::StrAppend(
                          text, one.tenant(),
                          one.active()
                              ? ""
                              : absl::StrCat(" from ",
                                             TimeText(one.start_time())),
                          " until ", TimeText(one.end_time()));
                    }));
}

// Returns "2.0 GiB", or "512.0 MiB of 2.0 GiB" if only a fraction may be used.
std::string Limit(const v1::Device& device) {
  const std::string full = FormatBytes(device.limit_bytes());
  const double fraction = device.memory_fraction();
  if (fraction <= 0 || fraction >= 1) return full;
  const double usable = fraction * static_cast<double>(device.limit_bytes());
  return absl::StrCat(Bytes(usable), " of ", full);
}

std::string GpuMemory(const v1::Device& device) {
  const v1::GpuReadings& readings = device.readings();
  return Pair(readings.has_used_bytes(),
              static_cast<double>(readings.used_bytes()), device.has_gpu(),
              static_cast<double>(device.gpu().total_bytes()), Bytes);
}

std::string Power(const v1::Device& device) {
  const v1::GpuReadings& readings = device.readings();
  return Pair(readings.has_power_watts(), readings.power_watts(),
              readings.has_power_limit_watts(), readings.power_limit_watts(),
              Watts);
}

// Returns "corrected/uncorrected" errors.
std::string Ecc(const v1::Device& device) {
  const v1::GpuReadings& readings = device.readings();
  return Pair(readings.has_ecc_corrected(),
              static_cast<double>(readings.ecc_corrected()),
              readings.has_ecc_uncorrected(),
              static_cast<double>(readings.ecc_uncorrected()), Count);
}

// Returns the last error report and the number of reports: "79 (of 3)".
std::string Xid(const v1::Device& device) {
  const auto& events = device.readings().xid_events();
  if (events.empty()) return "";
  return events.size() == 1 ? absl::StrCat(events.rbegin()->code())
                            : absl::StrCat(events.rbegin()->code(), " (of ",
                                           events.size(), ")");
}

std::string Clock(bool told, uint32_t megahertz) {
  return told ? absl::StrCat(megahertz, " MHz") : "";
}

std::string Processes(const v1::Device& device) {
  return absl::StrJoin(device.readings().processes(), ",",
                       [](std::string* text, const v1::GpuProcess& process) {
                         absl::StrAppend(text, process.pid());
                         if (process.bytes() == 0) return;
                         absl::StrAppend(text, ":",
                                         FormatBytes(process.bytes()));
                       });
}

std::vector<DeviceColumn> GpuColumns(bool wide) {
  using D = const v1::Device&;
  std::vector<DeviceColumn> columns = {
      {{"GPU-UTIL", Table::kRight},
       [](D d) {
         return d.readings().has_utilization()
                    ? Percent(d.readings().utilization())
                    : "";
       }},
      {{"GPU-MEMORY", Table::kRight}, GpuMemory},
      {{"TEMP", Table::kRight},
       [](D d) {
         return d.readings().has_temperature_celsius()
                    ? absl::StrFormat("%.0f C",
                                      d.readings().temperature_celsius())
                    : "";
       }},
      {{"POWER", Table::kRight}, Power},
      {{"ECC", Table::kRight}, Ecc},
      {{"XID", Table::kRight}, Xid}};
  if (!wide) return columns;
  const std::vector<DeviceColumn> more = {
      {{"MEM-UTIL", Table::kRight},
       [](D d) {
         return d.readings().has_memory_utilization()
                    ? Percent(d.readings().memory_utilization())
                    : "";
       }},
      {{"SM-CLOCK", Table::kRight},
       [](D d) {
         return Clock(d.readings().has_multiprocessor_clock_mhz(),
                      d.readings().multiprocessor_clock_mhz());
       }},
      {{"MEM-CLOCK", Table::kRight},
       [](D d) {
         return Clock(d.readings().has_memory_clock_mhz(),
                      d.readings().memory_clock_mhz());
       }},
      {{"PROCESSES"}, Processes},
      {{"UUID"}, [](D d) { return d.gpu().uuid(); }},
      {{"BUS"}, [](D d) { return d.gpu().pci_bus_id(); }},
      {{"DRIVER"}, [](D d) { return d.gpu().driver_version(); }}};
  columns.insert(columns.end(), more.begin(), more.end());
  return columns;
}

std::vector<DeviceColumn> AllColumns(bool gpus, bool wide) {
  using D = const v1::Device&;
  std::vector<DeviceColumn> columns = {
      {{"DEVICE"}, [](D d) { return d.name(); }},
      {{"STATE"}, State},
      {{"LIMIT", Table::kRight}, Limit},
      {{"COMMITTED", Table::kRight},
       [](D d) { return FormatBytes(d.committed_bytes()); }},
      {{"ALLOCATED", Table::kRight},
       [](D d) { return FormatBytes(d.memory().allocated_bytes()); }},
      {{"BUSY", Table::kRight}, [](D d) { return Percent(d.utilization()); }}};
  if (gpus) {
    const std::vector<DeviceColumn> more = GpuColumns(wide);
    columns.insert(columns.end(), more.begin(), more.end());
  }
  const std::vector<DeviceColumn> last = {
      {{"THREADS", Table::kRight},
       [](D d) { return absl::StrCat(d.threads()); }},
      {{"JOBS"}, [](D d) { return absl::StrJoin(d.job_ids(), ","); }},
      {{"MODELS"}, [](D d) { return absl::StrJoin(d.versions(), ","); }},
      {{"DESCRIPTION"}, [](D d) { return d.description(); }}};
  columns.insert(columns.end(), last.begin(), last.end());
  return columns;
}

}  // namespace

void PrintDevices(const Stream& stream, const v1::ListDevicesResponse& devices,
                  const DeviceViewOptions& options) {
  const bool gpus =
      std::any_of(devices.devices().begin(), devices.devices().end(),
                  [](const v1::Device& device) { return device.has_gpu(); });
  const std::vector<DeviceColumn> columns = AllColumns(gpus, options.wide);
  std::vector<Table::Column> heads;
  for (const DeviceColumn& column : columns) heads.push_back(column.column);
  Table table(std::move(heads));
  for (const v1::Device& device : devices.devices()) {
    std::vector<std::string> cells;
    for (const DeviceColumn& column : columns) {
      cells.push_back(column.cell(device));
    }
    table.AddRow(std::move(cells));
  }
  table.Print(stream, options.headers);
  for (const v1::Device& device : devices.devices()) {
    if (device.has_cools_until() && device.state() != v1::DEVICE_QUARANTINED) {
      *stream.stream << device.name() << CoolingText(device) << "\n";
    }
    if (!device.drain().reason().empty()) {
      *stream.stream << device.name()
                     << " is drained: " << device.drain().reason() << "\n";
    }
    if (!device.reservations().empty()) {
      *stream.stream << device.name() << ReservedText(device) << "\n";
    }
    if (device.state_reason().empty()) continue;
    *stream.stream << device.name() << " is " << State(device) << ": "
                   << device.state_reason() << "\n";
  }
}

}  // namespace gpupool::client
