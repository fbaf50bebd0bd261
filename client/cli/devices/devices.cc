// gpupool devices: the pool and what runs there.
#include <CLI/App.hpp>
#include <CLI/Validators.hpp>
#include <memory>
#include <ostream>

#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/devices/device_view.h"

namespace gpupool::client {
namespace {

struct DevicesOptions {
  bool watch = false;
  bool wide = false;
  double interval_seconds = 1;
};

void Show(const Context& context, const DevicesOptions& options,
          const v1::ListDevicesResponse& devices) {
  PrintDevices(context.out(), devices,
               {.headers = context.headers(), .wide = options.wide});
}

int List(Context& context, const DevicesOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const auto devices = (*client)->ListDevices({});
  if (!devices.ok()) return context.Fail(devices.status());
  context.Print(*devices, [&] { Show(context, options, *devices); });
  return kOk;
}

// Prints the devices again and again. On a terminal each table replaces the
// previous one. Elsewhere they follow each other, in JSON one per line.
int Watch(Context& context, const DevicesOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  v1::WatchDevicesRequest request;
  request.set_interval_seconds(options.interval_seconds);
  std::ostream& out = *context.out().stream;
  const bool as_json = context.options().output == OutputFormat::kJson;
  const absl::Status status = (*client)->WatchDevices(
      request, context.stop(), [&](const v1::ListDevicesResponse& devices) {
        if (as_json) {
          out << MessageToJson(devices, false) << "\n";
        } else {
          if (context.out().is_terminal) out << "\x1b[H\x1b[2J";
          context.Print(devices, [&] { Show(context, options, devices); });
        }
        out.flush();
        return out.good();
      });
  if (context.stop().stop_requested()) return kOk;  // the only way to end it
  return status.ok() ? kOk : context.Fail(status);
}

}  // namespace

void AddDevices(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<DevicesOptions>();
  CLI::App* devices = AddVerb(
      app, "devices", "Show the pool's devices, what runs there, and memory.",
      "  gpupool devices --watch\n  gpupool devices memory cpu:0");
  devices->require_subcommand(0, 1);
  devices->add_flag("--watch", options->watch,
                    "Refresh the table until Ctrl-C");
  devices->add_flag("--wide", options->wide,
                    "GPUs: also clocks, processes and the GPU's name");
  devices
      ->add_option("--interval", options->interval_seconds,
                   "Seconds between refreshes with --watch (default: 1)")
      ->check(CLI::Range(0.1, 3600.0))
      ->type_name("SECONDS");
  invocation.On(devices, [options](Context& c) {
    return options->watch ? Watch(c, *options) : List(c, *options);
  });
  AddDevicesMemory(*devices, invocation);
  AddDevicesDrain(*devices, invocation);
  AddDevicesTopology(*devices, invocation);
  AddDevicesBench(*devices, invocation);
}

}  // namespace gpupool::client
