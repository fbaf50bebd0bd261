// Makes plans again after a start with another number of threads or another
// build. The needs of kernels depend on both, and an old plan would miss some
// bytes.
//   * Jobs that have not ended and wanted versions come first. Meanwhile
//     nothing starts and nothing loads, for at most options.plan_hold.
//   * Unwanted versions follow, one plan at a time, so that submissions get in
//     between.
//   * Without the meta worker, and where a plan cannot be made, the old plan
//     stays.
//
// Thread-safety: Begin from any thread; everything else on the control thread,
// or before it starts. Ownership: the parts of the context must outlive the
// renewal, which must outlive their threads.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace gpupool::v1 {
class Plan;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class FromWorker;
class ToWorker;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class Ledger;
class Transaction;
struct ControlContext;

class PlanRenewal {
 public:
  explicit PlanRenewal(const ControlContext& context) : context_(context) {}

  // Lists the recovered jobs and versions with old plans. Holds starts if there
  // are some to wait for. Returns errors of the store.
  absl::Status Collect(Ledger& ledger);
  // Returns the time until which starts are held; `now` is the time of the
  // start.
  absl::Time HoldUntil(absl::Time now);

  // Begins to plan, once the meta worker is there.
  void Begin();
  // Ends the hold when its time is over.
  void CheckHold(Transaction& transaction);

 private:
  struct Item {
    bool is_job = false;
    uint64_t id = 0;
    bool awaited = false;  // starts wait for it
  };

  void SendNext(Transaction& transaction);
  void Take(Transaction& transaction, const Item& item,
            const absl::StatusOr<worker::v1::FromWorker>& reply);
  // Returns false when the item is gone.
  bool MakeRequest(const Ledger& ledger, const Item& item,
                   worker::v1::ToWorker& request) const;
  void Renew(Transaction& transaction, const Item& item, const v1::Plan& plan);
  void Release(Transaction& transaction);
  void Finish(Transaction& transaction);

  const ControlContext& context_;
  std::deque<Item> items_;
  bool wanted_ = false;  // plans are of another planner
  bool in_flight_ = false;
  bool holding_ = false;
  absl::Time hold_until_ = absl::InfiniteFuture();
  uint64_t renewed_ = 0;
};

}  // namespace gpupool::server
