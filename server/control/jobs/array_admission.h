// How an array of jobs gets in, and what people ask of it as a whole.
//
// All its tasks are admitted in one transaction, or none of them is. Plans are
// made once for all tasks that need the same (plan_cache.h).
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

// Different plans that the tasks of an array may need; each takes a while.
inline constexpr size_t kMaxArrayPlans = 100;

using ArrayCallback = Callback<v1::JobArray>;

// `tasks` are those of the request's spec, checked.
void SubmitArray(const ControlContext& context,
                 const v1::SubmitJobRequest& request,
                 std::vector<ArrayTask> tasks, ArrayCallback callback);

// NotFound when there is no such array. Where all its tasks have ended nothing
// happens.
void AskOfArray(const ControlContext& context, uint64_t id,
                scheduler::ArrayRequest what, ArrayCallback callback);

// The array that was submitted with this request id, committed or not.
absl::StatusOr<std::optional<v1::JobArray>> EarlierArray(
    Transaction& transaction, const std::string& tenant,
    const std::string& request_id);

}  // namespace gpupool::server
