#include "server/control/models/repository_versions.h"

#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "scheduler/step/event.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_requests.h"
#include "server/control/models/version_import.h"
#include "server/control/models/version_waiters.h"
#include "server/control/records/transaction.h"

namespace gpupool::server {
namespace {

using scheduler::VersionId;

// A version on its way into the store.
struct Arrival {
  v1::ModelVersion version;  // has its number
  std::string device;
  VersionCallback callback;
};
using SharedArrival = std::shared_ptr<const Arrival>;

void Settle(const ControlContext& context, Transaction& transaction,
            const SharedArrival& arrival);

void EnqueueSettle(const ControlContext& context,
                   const SharedArrival& arrival) {
  Enqueue<v1::ModelVersion>(context, arrival->callback,
                            [&context, arrival](Transaction& transaction) {
                              Settle(context, transaction, arrival);
                            });
}

void Create(Transaction& transaction, const SharedArrival& arrival) {
  Ledger& ledger = transaction.ledger();
  const uint64_t id = transaction.CreateVersion(arrival->version);
  transaction.Apply(
      scheduler::VersionLoadRequested{VersionId(id), arrival->device});
  transaction.AfterCommit([&ledger, id, arrival] {
    const v1::ModelVersion* row = ledger.FindVersion(id);
    if (row == nullptr) return arrival->callback(NotRunning());
    arrival->callback(*row);
  });
}

// Unloads the version that stands in the way, then settles again.
void UnloadFirst(const ControlContext& context, Transaction& transaction,
                 uint64_t id, const SharedArrival& arrival) {
  transaction.Apply(scheduler::VersionUnloadRequested{VersionId(id)});
  Ledger& ledger = transaction.ledger();
  transaction.AfterCommit([&context, &ledger, id, arrival] {
    const auto unloaded =
        [&context, arrival](const absl::StatusOr<v1::ModelVersion>& version) {
          const absl::Status& status = version.status();
          // A version that somebody has deleted is out of the way, too.
          if (!status.ok() && !absl::IsNotFound(status)) {
            return arrival->callback(status);
          }
          EnqueueSettle(context, arrival);
        };
    context.waiters->Add(VersionWaiters::For::kUnloaded, {id}, unloaded);
    context.waiters->Check(ledger, {id});
  });
}

// Deletes the version that stands in the way, then settles again. Both cannot
// be in one transaction, since two rows may not have the same number.
void DeleteFirst(const ControlContext& context, Transaction& transaction,
                 uint64_t id, const SharedArrival& arrival) {
  transaction.Apply(scheduler::VersionDeleted{VersionId(id)});
  transaction.AfterCommit([&context, arrival] {
    context.want_sweep();
    EnqueueSettle(context, arrival);
  });
}

// Creates the version, or takes the next step towards it: unloads, then deletes
// the version of the same number.
void Settle(const ControlContext& context, Transaction& transaction,
            const SharedArrival& arrival) {
  Ledger& ledger = transaction.ledger();
  const absl::Status device = CheckWantedDevice(ledger.state, arrival->device);
  if (!device.ok()) return arrival->callback(device);
  const v1::ModelVersion* const newest =
      ledger.FindVersion(arrival->version.model(), 0);
  if (newest != nullptr && !newest->tenant().empty()) {
    return arrival->callback(absl::AlreadyExistsError(
        absl::StrCat("the name \"", newest->model(),
                     "\" is taken by an uploaded model of a tenant; rename the "
                     "folder")));
  }
  const v1::ModelVersion* present =
      ledger.FindVersion(arrival->version.model(), arrival->version.version());
  if (present == nullptr) return Create(transaction, arrival);
  if (!present->from_repository()) {
    return arrival->callback(absl::AlreadyExistsError(absl::StrCat(
        "model \"", present->model(), "\" has a version ", present->version(),
        " that was not read from a model repository; rename the folder, or "
        "delete that version with `gpupool models delete ",
        present->model(), "/", present->version(), "`")));
  }
  if (present->state() == v1::UNLOADED || present->state() == v1::LOAD_FAILED) {
    return DeleteFirst(context, transaction, present->id(), arrival);
  }
  UnloadFirst(context, transaction, present->id(), arrival);
}

}  // namespace

void ImportRepositoryVersion(const ControlContext& context,
                             const RepositoryImport& import,
                             Callback<v1::ModelVersion> callback) {
  const auto tried = [&context, device = import.device,
                      callback](absl::StatusOr<v1::ModelVersion> version) {
    if (!version.ok()) return callback(version.status());
    EnqueueSettle(context, std::make_shared<const Arrival>(
                               Arrival{*std::move(version), device, callback}));
  };
  PlanVersion(context, import.model,
              [&context, number = import.number, check = import.check, tried,
               callback](absl::StatusOr<v1::ModelVersion> planned) {
                if (!planned.ok()) return callback(planned.status());
                planned->set_version(number);
                planned->set_from_repository(true);
                const absl::Status checked = check(*planned);
                if (!checked.ok()) return callback(checked);
                TryOutVersion(context, *planned, tried);
              });
}

}  // namespace gpupool::server
