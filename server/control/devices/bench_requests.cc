#include "server/control/devices/bench_requests.h"

#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_board.h"
#include "server/control/devices/device_requests.h"
#include "server/control/records/transaction.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Stores the result, shows its rates, and then answers.
void KeepBench(const ControlContext& context, v1::DeviceBench bench,
               const Callback<v1::DeviceBench>& callback) {
  Enqueue<v1::DeviceBench>(
      context, callback,
      [&context, bench = std::move(bench), callback](Transaction& transaction) {
        transaction.SetDeviceBench(bench);
        transaction.AfterCommit([&context, bench, callback] {
          context.board->SetMeasured(bench);
          callback(bench);
        });
      });
}

}  // namespace

void BenchDevice(const ControlContext& context,
                 const v1::BenchDeviceRequest& request,
                 Callback<v1::DeviceBench> callback) {
  const std::string& device = request.device();
  if (!context.board->Has(device)) return callback(NoSuchDevice(device));
  worker::v1::ToWorker message;
  *message.mutable_bench_device() = request;
  Ask<v1::DeviceBench>(
      context, {device, std::move(message), context.options.bench_timeout},
      callback,
      [&context, device, callback](const worker::v1::FromWorker& reply) {
        v1::DeviceBench bench = reply.bench_device();
        bench.set_device(device);
        KeepBench(context, std::move(bench), callback);
      });
}

void GetDeviceBench(const ControlContext& context,
                    const v1::GetDeviceBenchRequest& request,
                    const Callback<v1::DeviceBench>& callback) {
  const std::string& device = request.device();
  if (!context.board->Has(device)) return callback(NoSuchDevice(device));
  const auto benches = context.store->LoadDeviceBenches();
  if (!benches.ok()) return callback(benches.status());
  for (const v1::DeviceBench& bench : *benches) {
    if (bench.device() == device) return callback(bench);
  }
  callback(absl::NotFoundError(
      absl::StrCat("device ", device,
                   " was not measured yet; `gpupool devices "
                   "bench ",
                   device, "` measures it")));
}

}  // namespace gpupool::server
