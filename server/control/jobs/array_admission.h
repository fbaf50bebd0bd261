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
#include "scheduler/step/event.h"
#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class JobArray;
class SubmitJobRequest;
}  // namespace gpupool::v1

namespace gpupool::server {

class Transaction;
struct ArrayTask;
struct ControlContext;

// Maximum number of different plans for the tasks of an array. Each takes time.
inline constexpr size_t kMaxArrayPlans = 100;

using ArrayCallback = Callback<v1::JobArray>;

// Plans, stores and queues the tasks, which must be those of the request's spec
// and checked. Answers with the array, or with that of an earlier try.
void SubmitArray(const ControlContext& context,
                 const v1::SubmitJobRequest& request,
                 std::vector<ArrayTask> tasks, ArrayCallback callback);

// Applies the request to all tasks that have not ended. NotFound when there is
// no such array. No-op when all its tasks have ended.
void AskOfArray(const ControlContext& context, uint64_t id,
                scheduler::ArrayRequest what, ArrayCallback callback);

// Returns the array that was submitted with this request id, committed or not.
absl::StatusOr<std::optional<v1::JobArray>> EarlierArray(
    Transaction& transaction, const std::string& tenant,
    const std::string& request_id);

}  // namespace gpupool::server
