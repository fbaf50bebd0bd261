#include "engine/collective/gradient_buckets.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// The most elements whose byte count fits 63 bits.
constexpr uint64_t kMaxElements =
    std::numeric_limits<int64_t>::max() / sizeof(float);

absl::Status CheckPermutation(absl::Span<const int> order, size_t count) {
  std::vector<bool> seen(count, false);
  for (const int parameter : order) {
    if (parameter < 0 || static_cast<size_t>(parameter) >= count ||
        seen[static_cast<size_t>(parameter)]) {
      return absl::InvalidArgumentError(
          absl::StrCat("gradient buckets: parameter ", parameter,
                       " stands twice in the order or is not one of the ",
                       count, " parameters"));
    }
    seen[static_cast<size_t>(parameter)] = true;
  }
  if (order.size() != count) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient buckets: the order has ", order.size(), " of ",
                     count, " parameters"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GradientBuckets> GradientBuckets::Plan(
    absl::Span<const uint64_t> elements, absl::Span<const int> order,
    const BucketSizes& sizes) {
  RETURN_IF_ERROR(CheckPermutation(order, elements.size()));
  if (sizes.first_bytes == 0 || sizes.other_bytes == 0) {
    return absl::InvalidArgumentError(
        "gradient buckets: a bucket size of 0 bytes; the least is 1");
  }
  GradientBuckets plan;
  plan.slots_.resize(elements.size());
  bool open = false;
  for (const int parameter : order) {
    const size_t index = static_cast<size_t>(parameter);
    const uint64_t count = elements[index];
    if (count == 0 || count > kMaxElements - plan.elements_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "gradient buckets: parameter ", parameter, " has ", count,
          " elements; all together may have 1 to ", kMaxElements));
    }
    if (!open) plan.buckets_.push_back({.begin = plan.elements_});
    Bucket& bucket = plan.buckets_.back();
    plan.slots_[index] = {.bucket = static_cast<int>(plan.buckets_.size()) - 1,
                          .offset = bucket.elements,
                          .elements = count};
    bucket.parameters.push_back(parameter);
    bucket.elements += count;
    plan.elements_ += count;
    const uint64_t limit =
        plan.buckets_.size() == 1 ? sizes.first_bytes : sizes.other_bytes;
    // Closed behind the gradient that fills it, so no gradient is cut.
    open = bucket.elements * sizeof(float) < limit;
  }
  return plan;
}

}  // namespace gpupool::engine
