#include "server/control/devices/device_requests.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/state/device_choice.h"
#include "scheduler/state/state.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_board.h"
#include "server/control/records/transaction.h"
#include "server/pool/worker_port.h"

namespace gpupool::server {
namespace {

constexpr size_t kMostNamed = 16;  // number of devices in a text

}  // namespace

std::vector<v1::Device> ListDevices(const ControlContext& context) {
  std::vector<v1::Device> devices = context.board->List();
  if (context.workers == nullptr) return devices;
  for (v1::Device& device : devices) {
    device.set_worker_restarts(context.workers->status(device.name()).restarts);
  }
  return devices;
}

void AskDevice(const ControlContext& context, const std::string& device,
               worker::v1::ToWorker request,
               Callback<worker::v1::FromWorker> callback) {
  if (!context.board->Has(device)) return callback(NoSuchDevice(device));
  // A dump is as large as an export.
  const absl::Duration timeout = request.has_dump_memory()
                                     ? context.options.export_timeout
                                     : context.options.memory_timeout;
  AskWorker(context, {device, std::move(request), timeout},
            std::move(callback));
}

absl::Status NoSuchDevice(const std::string& device) {
  return absl::NotFoundError(absl::StrCat("there is no device \"", device,
                                          "\"; see `gpupool devices`"));
}

absl::Status CheckWantedDevice(const scheduler::State& state,
                               const std::string& wanted) {
  std::vector<std::string> names;
  for (const auto& [id, device] : state.devices()) {
    if (scheduler::TakesDevice(wanted, device.name, device.kind)) {
      return absl::OkStatus();
    }
    if (names.size() < kMostNamed) names.push_back(device.name);
  }
  const size_t others = state.devices().size() - names.size();
  const bool is_gpu = scheduler::KindIn(wanted) != scheduler::kCpuKind;
  return absl::InvalidArgumentError(absl::StrCat(
      "device is \"", wanted, "\", which the pool does not have; it has ",
      absl::StrJoin(names, ", "),
      others > 0 ? absl::StrCat(" and ", others, " more") : "",
      "; write one of these, or `any` to take whichever is free",
      is_gpu ? "; the server's log and `gpupool doctor` say why a GPU of the "
               "machine is missing"
             : ""));
}

void SetDrain(const ControlContext& context, const std::string& device,
              const std::optional<v1::DeviceDrain>& drain,
              Callback<v1::Device> callback) {
  if (!context.board->Has(device)) return callback(NoSuchDevice(device));
  Enqueue<v1::Device>(
      context, callback,
      [&context, device, drain, callback](Transaction& transaction) {
        transaction.SetDrain(*transaction.ledger().state.FindDevice(device),
                             drain);
        transaction.AfterCommit([&context, device, callback] {
          callback(context.board->Find(device));
        });
      });
}

}  // namespace gpupool::server
