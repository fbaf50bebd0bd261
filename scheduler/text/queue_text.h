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

// Returns the queues that the entries say. What is not said of a queue's order
// and its numbers is as `rest` has it. InvalidArgument names the queue, the
// value and what is allowed.
absl::StatusOr<std::vector<Queue>> MakeQueues(
    const std::vector<NamedWords>& entries, const QueuePolicy& rest);

// Returns the same for the one-line form. Empty text: none.
absl::StatusOr<std::vector<Queue>> ParseQueues(absl::string_view text,
                                               const QueuePolicy& rest);

}  // namespace gpupool::scheduler
