#include "scheduler/yield/preemption_reasons.h"

#include <array>
#include <cstddef>

namespace gpupool::scheduler {
namespace {

using enum PreemptionReason;

constexpr std::array<PreemptionRow, 9> kRows = {{
    {kPriority, "priority", StopReason::kPreempted, "has the higher priority",
     "has the lower priority"},
    // $0: the queue of the job that gives way.
    {kQueue, "queue", StopReason::kPreempted, "is in a queue of higher rank",
     "is in queue '$0', which is of lower rank"},
    // $0: its standing. $1: the standing above which jobs give way.
    {kOrder, "order", StopReason::kPreempted,
     "goes first by the server's order",
     "stands at $0 device seconds; jobs above $1 give way"},
    // $0: the tenant of the job that gives way.
    {kGuarantee, "guarantee", StopReason::kPreempted,
     "is within what its tenant is guaranteed",
     "is beyond what tenant '$0' is guaranteed"},
    {kMove, "move", StopReason::kMoved, "needs devices that are close together",
     "was told to checkpoint and to go on elsewhere"},
    {kServing, "serving", StopReason::kServing, "is served",
     "was told to checkpoint and to make room for a served model"},
    {kDrain, "drain", StopReason::kDrained, "",
     "was told to checkpoint and to leave a drained device"},
    // $0: the number of its devices. $1: the least that it can run with.
    {kResize, "resize", StopReason::kResized,
     "needs devices that this one can do without",
     "runs on $0 devices and can do with $1"},
    {kReservation, "reservation", StopReason::kReserved, "has devices reserved",
     "was told to checkpoint and to leave a reserved device"},
}};

}  // namespace

absl::Span<const PreemptionRow> PreemptionRows() { return kRows; }

const PreemptionRow& RowOf(PreemptionReason reason) {
  return kRows[static_cast<size_t>(reason)];
}

}  // namespace gpupool::scheduler
