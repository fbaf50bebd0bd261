// gpupool devices bench: measures a device.
#include <CLI/App.hpp>
#include <memory>
#include <ostream>
#include <string>

#include "client/cli/command/context.h"
#include "client/cli/command/exit_code.h"
#include "client/cli/command/verbs.h"
#include "client/cli/devices/bench_view.h"
#include "client/device_calls.h"
#include "client/files/partial_file.h"

namespace gpupool::client {
namespace {

using Stub = v1::DeviceService::Stub;

// The server's limit for the measurements, and time for the answer.
constexpr absl::Duration kBenchTimeout = absl::Minutes(6);

struct BenchOptions {
  std::string device;
  bool force = false;
  bool last = false;
  std::string file;  // empty: no picture
};

absl::StatusOr<v1::DeviceBench> GetBench(Client& client,
                                         const BenchOptions& options) {
  if (options.last) {
    v1::GetDeviceBenchRequest request;
    request.set_device(options.device);
    return CallDevice(client, &Stub::GetDeviceBench, request);
  }
  v1::BenchDeviceRequest request;
  request.set_device(options.device);
  request.set_force(options.force);
  return CallDevice(client, &Stub::BenchDevice, request,
                    {Connection::kOnce, kBenchTimeout});
}

int RunBench(Context& context, const BenchOptions& options) {
  const absl::StatusOr<Client*> client = context.client();
  if (!client.ok()) return context.Fail(client.status());
  const absl::StatusOr<v1::DeviceBench> bench = GetBench(**client, options);
  if (!bench.ok()) return context.Fail(bench.status());
  context.Print(*bench,
                [&] { PrintBench(context.out(), *bench, context.headers()); });
  if (options.file.empty()) return kOk;
  const absl::Status written =
      WriteWholeFile(options.file, BenchPicture(*bench));
  return written.ok() ? kOk : context.Fail(written);
}

}  // namespace

void AddDevicesBench(CLI::App& devices, Invocation& invocation) {
  auto options = std::make_shared<BenchOptions>();
  CLI::App* verb = AddVerb(
      devices, "bench",
      "Measure copies by path and size, matrix products by type, and "
      "allocations of a device. The server keeps the last result, and plans "
      "estimate step times with it. Takes some seconds.",
      "  gpupool devices bench cpu:0\n"
      "  gpupool devices bench cuda:0 -O bench.svg\n"
      "  gpupool devices bench cuda:0 --last");
  verb->add_option("DEVICE", options->device, "The device, for example cpu:0")
      ->required();
  CLI::Option* force = verb->add_flag(
      "--force", options->force,
      "Measure also while the device trains or serves; steps and requests "
      "take turns with the measurements");
  verb->add_flag("--last", options->last,
                 "Measure nothing, and show the last result")
      ->excludes(force);
  verb->add_option("-O,--file", options->file,
                   "Also write a picture (SVG) to this file")
      ->type_name("FILE");
  invocation.On(verb, [options](Context& c) { return RunBench(c, *options); });
}

}  // namespace gpupool::client
