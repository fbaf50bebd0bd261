#include "server/serving/load_monitor.h"

#include <algorithm>

namespace gpupool::server {
namespace {

// Returns the longer one of the mean wait since the last look and the wait of
// the oldest call.
absl::Duration LongestWait(const StageSum& before, const StageSum& after,
                           absl::Time oldest, absl::Time now) {
  absl::Duration wait = std::max(now - oldest, absl::ZeroDuration());
  if (after.count > before.count) {
    const auto nanos = static_cast<double>(after.nanos - before.nanos);
    const auto count = static_cast<double>(after.count - before.count);
    wait = std::max(wait, absl::Nanoseconds(nanos / count));
  }
  return wait;
}

}  // namespace

void LoadMonitor::Look(const std::vector<VersionHandle>& versions,
                       absl::Time now) {
  std::map<uint64_t, Seen> seen;
  for (const VersionHandle& version : versions) {
    // The load of an ensemble is that of its steps. What the server computes
    // itself, such as a model of texts, has none.
    if (!version->has_batcher()) continue;
    const VersionFacts& facts = version->facts();
    auto known = seen_.extract(facts.id);
    if (!known.empty()) {
      LookAt(*version, now, known.mapped());
      seen.insert(std::move(known));
      continue;
    }
    scheduler::LoadOptions options = options_;
    options.target += facts.max_queue_delay;
    const StatisticsSnapshot first = version->batcher().statistics().Snapshot();
    seen.emplace(facts.id, Seen{scheduler::LoadGauge(options), now, first.queue,
                                first.success.count + first.fail.count});
  }
  seen_ = std::move(seen);  // forgets versions that are not served any more
}

void LoadMonitor::LookAt(const ServedVersion& version, absl::Time now,
                         Seen& seen) {
  Batcher& batcher = version.batcher();
  const StatisticsSnapshot snapshot = batcher.statistics().Snapshot();
  const uint64_t answered = snapshot.success.count + snapshot.fail.count;
  const double seconds = absl::ToDoubleSeconds(now - seen.time);
  const scheduler::LoadSample sample{
      .wait =
          LongestWait(seen.queue, snapshot.queue, batcher.oldest_call(), now),
      .requests_per_second =
          seconds > 0 ? static_cast<double>(answered - seen.answered) / seconds
                      : 0};
  seen.time = now;
  seen.queue = snapshot.queue;
  seen.answered = answered;
  // Requests that wait for a lost worker say nothing about the load.
  if (!batcher.has_worker()) return seen.gauge.Interrupt();
  const bool before = seen.gauge.under_load();
  const bool under_load = seen.gauge.Update(sample, now);
  if (under_load == before) return;
  if (batcher.observer() != nullptr) batcher.observer()->UnderLoad(under_load);
  changed_(version.facts().id, under_load);
}

}  // namespace gpupool::server
