// The policies that a replay can be asked for, by the words that people use.
// A new order of the scheduler is one line in policies.cc.
//
// Thread-safety: constants.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/order_policy.h"

namespace gpupool::scheduler {

struct NamedPolicy {
  absl::string_view word;  // "las"
  Order order = Order::kFirstCome;
  // It sees how long jobs run; the others know only how long they have run.
  bool sees_run_times = false;
  absl::string_view text;  // a sentence without its full stop
};

absl::Span<const NamedPolicy> NamedPolicies();

// Null when there is none of that name.
const NamedPolicy* FindPolicy(absl::string_view word);

}  // namespace gpupool::scheduler
