// The policies that a replay can be asked for. A new order of the scheduler is
// one line in policies.cc.
//
// Thread-safety: constants.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/state/order_policy.h"

namespace gpupool::scheduler {

struct SimulatedPolicy {
  Order order = Order::kFirstCome;
  // It sees how long jobs run; the others know only how long they have run.
  bool sees_run_times = false;
  absl::string_view text;  // a sentence without its full stop

  absl::string_view word() const { return ToString(order); }
};

// All orders in which traces differ: their jobs have no priorities.
absl::Span<const SimulatedPolicy> SimulatedPolicies();

// By its word. Null when there is none.
const SimulatedPolicy* FindPolicy(absl::string_view word);

}  // namespace gpupool::scheduler
