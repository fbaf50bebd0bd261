#include "server/control/upkeep/retention.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "server/control/calls/log.h"
#include "server/control/records/transaction.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

constexpr absl::Duration kBetweenLooks = absl::Seconds(10);

}  // namespace

void Retention::Run(Transaction& transaction) {
  const absl::Time now = transaction.now();
  // The second condition ends the wait early when the clock was set back.
  if (now < next_ && next_ - now <= kBetweenLooks) return;
  next_ = now + kBetweenLooks;
  const auto retired = transaction.store().FindRetired(now);
  if (!retired.ok()) {
    LogWarning(absl::StrCat("event=retention_failed error=\"",
                            retired.status().message(), "\""));
    return;
  }
  if (retired->jobs.empty() && retired->events_of.empty()) return;
  // There may be more: look again in the next turn.
  next_ = now;
  WriteBatch& batch = transaction.batch();
  batch.delete_events = retired->events_of;
  for (const auto& [id, state] : retired->jobs) {
    batch.delete_jobs.push_back(id);
    --transaction.ledger().job_counts[state];
  }
}

}  // namespace gpupool::server
