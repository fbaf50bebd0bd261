// Admits arrays of jobs, and handles requests for an array as a whole.
//
// All tasks are admitted in one transaction, or none is. One plan is made for
// all tasks with the same needs (plan_cache.h).
//
// Thread-safety: any thread, where no transaction is passed; see context.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpupool/v1/job.pb.h"
#include "scheduler/step/event.h"
#include "server/control/calls/callback.h"
#include "server/control/jobs/array_spec.h"
#include "server/control/jobs/submission_trace.h"

namespace gpupool::server {

class Transaction;
struct ControlContext;

// Maximum number of different plans for the tasks of an array. Each takes time.
inline constexpr size_t kMaxArrayPlans = 100;

using ArrayCallback = Callback<v1::JobArray>;

// An array as a client submits it.
struct SubmittedArray {
  v1::SubmitJobRequest request;
  std::vector<ArrayTask> tasks;        // of the request's spec, checked
  SubmissionTracePtr trace = nullptr;  // null: not traced
};

// Plans, stores and queues the tasks. Answers with the array, or with the
// array of an earlier try. The callback ends the trace.
void SubmitArray(const ControlContext& context, SubmittedArray array,
                 ArrayCallback callback);

// Applies the request to all tasks that have not ended. NotFound when there is
// no such array. No-op when all its tasks have ended.
void AskOfArray(const ControlContext& context, uint64_t id,
                scheduler::ArrayRequest what, ArrayCallback callback);

// Returns the array that was submitted with this request id, committed or not.
absl::StatusOr<std::optional<v1::JobArray>> EarlierArray(
    Transaction& transaction, const std::string& tenant,
    const std::string& request_id);

}  // namespace gpupool::server
