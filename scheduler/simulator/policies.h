// The policies that a replay can use. A new order of the scheduler is one line
// in policies.cc.
//
// Thread-safety: constants.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/state/order_policy.h"

namespace gpupool::scheduler {

struct SimulatedPolicy {
  Order order = Order::kFirstCome;
  // Whether the policy sees the run times of jobs; others see only attained
  // time.
  bool sees_run_times = false;
  absl::string_view text;  // a sentence without its full stop

  absl::string_view word() const { return ToString(order); }
};

// Returns all orders that differ on traces, whose jobs have no priorities.
absl::Span<const SimulatedPolicy> SimulatedPolicies();

// Returns the policy with that word, or null.
const SimulatedPolicy* FindPolicy(absl::string_view word);

}  // namespace gpupool::scheduler
