// gpupool devices: the pool and its memory.
#include <CLI/CLI.hpp>
#include <memory>
#include <ostream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/context.h"
#include "client/cli/exit_code.h"
#include "client/cli/table.h"
#include "client/cli/verbs.h"
#include "client/units.h"

namespace gpupool::client {
namespace {

struct DevicesOptions {
  bool watch = false;
  double interval_seconds = 1;
  std::string device;
  bool snapshot = false;
};

std::string StateText(v1::DeviceState state) {
  return absl::AsciiStrToLower(
      absl::StripPrefix(v1::DeviceState_Name(state), "DEVICE_"));
}

void PrintDevices(const Context& context,
                  const v1::ListDevicesResponse& devices) {
  Table table({{"DEVICE"},
               {"STATE"},
               {"LIMIT", Table::kRight},
               {"COMMITTED", Table::kRight},
               {"ALLOCATED", Table::kRight},
               {"BUSY", Table::kRight},
               {"THREADS", Table::kRight},
               {"JOBS"},
               {"MODELS"},
               {"DESCRIPTION"}});
  for (const v1::Device& device : devices.devices()) {
    table.AddRow({device.name(), StateText(device.state()),
                  FormatBytes(device.limit_bytes()),
                  FormatBytes(device.committed_bytes()),
                  FormatBytes(device.memory().allocated_bytes()),
                  absl::StrFormat("%.0f%%", device.utilization() * 100),
                  absl::StrCat(device.threads()),
                  absl::StrJoin(device.job_ids(), ","),
                  absl::StrJoin(device.versions(), ","), device.description()});
  }
  table.Print(context.out(), context.headers());
  for (const v1::Device& device : devices.devices()) {
    if (device.state_reason().empty()) continue;
    *context.out().stream << device.name() << " is "
                          << StateText(device.state()) << ": "
                          << device.state_reason() << "\n";
  }
}

int List(Context& context) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto devices = (*client)->ListDevices({});
  if (!devices.ok()) return context.Fail(devices.status());
  context.Print(*devices, [&] { PrintDevices(context, *devices); });
  return kOk;
}

// On a terminal each picture replaces the one before; elsewhere they follow
// one another, in JSON one a line.
int Watch(Context& context, double interval_seconds) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::WatchDevicesRequest request;
  request.set_interval_seconds(interval_seconds);
  std::ostream& out = *context.out().stream;
  const bool as_json = context.options().output == OutputFormat::kJson;
  const absl::Status status = (*client)->WatchDevices(
      request, context.stop(), [&](const v1::ListDevicesResponse& devices) {
        if (as_json) {
          out << MessageToJson(devices, false) << "\n";
        } else {
          if (context.out().is_terminal) out << "\x1b[H\x1b[2J";
          context.Print(devices, [&] { PrintDevices(context, devices); });
        }
        out.flush();
        return out.good();
      });
  if (context.stop().stop_requested()) return kOk;  // the way to end it
  return status.ok() ? kOk : context.Fail(status);
}

int Memory(Context& context, const DevicesOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  if (options.snapshot) {
    v1::GetMemorySnapshotRequest request;
    request.set_device(options.device);
    const auto snapshot = (*client)->GetMemorySnapshot(request);
    if (!snapshot.ok()) return context.Fail(snapshot.status());
    // A snapshot is for programs: it has no table.
    context.Print(*snapshot, [&] {
      *context.out().stream << MessageToJson(*snapshot, true);
    });
    return kOk;
  }
  if (context.options().output == OutputFormat::kTable) {
    v1::GetMemorySummaryRequest request;
    request.set_device(options.device);
    const auto summary = (*client)->GetMemorySummary(request);
    if (!summary.ok()) return context.Fail(summary.status());
    *context.out().stream << absl::StripSuffix(summary->text(), "\n") << "\n";
    return kOk;
  }
  v1::GetMemoryStatsRequest request;
  request.set_device(options.device);
  const auto stats = (*client)->GetMemoryStats(request);
  if (!stats.ok()) return context.Fail(stats.status());
  context.Print(*stats, [] {});
  return kOk;
}

int EmptyCache(Context& context, const std::string& device) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::EmptyCacheRequest request;
  request.set_device(device);
  const auto answer = (*client)->EmptyCache(request);
  if (!answer.ok()) return context.Fail(answer.status());
  context.Print(*answer, [&] {
    *context.out().stream << device << ": gave back "
                          << FormatBytes(answer->freed_bytes()) << "\n";
  });
  return kOk;
}

int ResetPeak(Context& context, const std::string& device) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::ResetPeakRequest request;
  request.set_device(device);
  const auto stats = (*client)->ResetPeak(request);
  if (!stats.ok()) return context.Fail(stats.status());
  context.Print(*stats, [&] {
    *context.out().stream << device << ": the peak is now "
                          << FormatBytes(stats->peak_allocated_bytes()) << "\n";
  });
  return kOk;
}

CLI::App* AddDeviceVerb(CLI::App& devices, const std::string& name,
                        const std::string& description,
                        const std::string& example, DevicesOptions& options) {
  CLI::App* verb = AddVerb(devices, name, description, example);
  verb->add_option("DEVICE", options.device, "The device, for example cpu:0")
      ->required();
  return verb;
}

}  // namespace

void AddDevices(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DevicesOptions>();
  CLI::App* devices = AddVerb(
      app, "devices", "Show the pool's devices, what runs there, and memory.",
      "  gpupool devices --watch\n  gpupool devices memory cpu:0");
  devices->require_subcommand(0, 1);
  devices->add_flag("--watch", options->watch,
                    "Go on showing them until Ctrl-C");
  devices
      ->add_option("--interval", options->interval_seconds,
                   "Seconds between pictures of --watch (default: 1)")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("SECONDS");
  invocation.On(devices, [options](Context& c) {
    return options->watch ? Watch(c, options->interval_seconds) : List(c);
  });

  CLI::App* memory = AddDeviceVerb(
      *devices, "memory",
      "Show who holds the memory of a device: bytes by owner, statistics, "
      "limits.",
      "  gpupool devices memory cpu:0\n"
      "  gpupool devices memory cpu:0 --snapshot > blocks.json",
      *options);
  memory->add_flag("--snapshot", options->snapshot,
                   "Every segment and block with its owner, as JSON");
  invocation.On(memory, [options](Context& c) { return Memory(c, *options); });
  invocation.On(
      AddDeviceVerb(*devices, "empty-cache",
                    "Give cached, unused memory back to the system.",
                    "  gpupool devices empty-cache cpu:0", *options),
      [options](Context& c) { return EmptyCache(c, options->device); });
  invocation.On(
      AddDeviceVerb(*devices, "reset-peak",
                    "Set the recorded peaks to the present values.",
                    "  gpupool devices reset-peak cpu:0", *options),
      [options](Context& c) { return ResetPeak(c, options->device); });
}

}  // namespace gpupool::client
