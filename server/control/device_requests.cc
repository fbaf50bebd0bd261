#include "server/control/device_requests.h"

#include <utility>

namespace gpupool::server {

absl::Status NoSuchDevice(const std::string& device) {
  return absl::NotFoundError(absl::StrCat("there is no device \"", device,
                                          "\"; see `gpupool devices`"));
}

void SetDrain(const ControlContext& context, const std::string& device,
              const std::optional<v1::DeviceDrain>& drain,
              ControlLoop::Callback<v1::Device> callback) {
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
