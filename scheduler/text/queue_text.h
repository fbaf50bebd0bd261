// Queues as text, for flags and configuration files:
//
//   short:order=las,rank=10,preempts=yes;big:devices=cuda:0+cuda:1,most=2
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/text/named_words.h"

namespace gpupool::scheduler {

inline constexpr int kMostRank = 1000;  // the least is -kMostRank
inline constexpr uint32_t kMostQueueDevices = 1 << 20;

// Returns the queues of the entries. `rest` has the defaults of a queue's order
// and numbers. InvalidArgument names the queue, the value and what is allowed.
absl::StatusOr<std::vector<Queue>> MakeQueues(
    const std::vector<NamedWords>& entries, const QueuePolicy& rest);

// Returns the queues of the one-line form. Empty text has none.
absl::StatusOr<std::vector<Queue>> ParseQueues(absl::string_view text,
                                               const QueuePolicy& rest);

}  // namespace gpupool::scheduler
