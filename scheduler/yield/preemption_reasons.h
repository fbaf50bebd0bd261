// The reasons for which running jobs are told to make room: one row for each,
// with all its texts.
//
// Thread-safety: constant data.
#pragma once

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

struct PreemptionRow {
  PreemptionReason reason = PreemptionReason::kOrder;
  absl::string_view label;  // label of gpupool_preemptions_total
  StopReason stop = StopReason::kPreempted;  // the reason that the attempt gets
  // Text of the job's log after "preempted by job 7, which".
  absl::string_view other;
  // Text of `gpupool why` for the job that gives way, a format of Substitute():
  // the reason defines $0 and $1.
  absl::string_view own;
};

// Returns all rows, in the order of the reasons.
absl::Span<const PreemptionRow> PreemptionRows();

// Returns the row of the reason.
const PreemptionRow& RowOf(PreemptionReason reason);

}  // namespace gpupool::scheduler
