#include "engine/collective/gradient_reducer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

GradientReducer::GradientReducer(GradientBuckets buckets,
                                 Collective* collective)
    : buckets_(std::move(buckets)),
      collective_(collective),
      flat_(buckets_.elements()),
      given_(buckets_.slots().size(), false) {
  for (const Bucket& bucket : buckets_.buckets()) {
    missing_.push_back(bucket.parameters.size());
  }
  tickets_.reserve(missing_.size());
}

GradientReducer::~GradientReducer() {
  for (const CollectiveTicket ticket : tickets_) {
    collective_->Wait(ticket).IgnoreError();
  }
}

uint64_t GradientReducer::BeginOf(const BucketSlot& slot) const {
  return buckets_.buckets()[static_cast<size_t>(slot.bucket)].begin +
         slot.offset;
}

absl::Span<const float> GradientReducer::gradient(int parameter) const {
  GPUPOOL_CHECK(parameter >= 0 &&
                static_cast<size_t>(parameter) < given_.size());
  const BucketSlot& slot = buckets_.slots()[static_cast<size_t>(parameter)];
  return absl::MakeConstSpan(flat_).subspan(BeginOf(slot), slot.elements);
}

absl::Status GradientReducer::Give(int parameter,
                                   absl::Span<const float> gradient) {
  const size_t index = static_cast<size_t>(parameter);
  if (parameter < 0 || index >= given_.size() || given_[index] ||
      gradient.size() != buckets_.slots()[index].elements) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradient of parameter ", parameter, " with ", gradient.size(),
        " elements: there are ", given_.size(),
        " parameters, each is given once a step with its own size"));
  }
  const BucketSlot& slot = buckets_.slots()[index];
  std::copy(gradient.begin(), gradient.end(), flat_.data() + BeginOf(slot));
  given_[index] = true;
  --missing_[static_cast<size_t>(slot.bucket)];
  while (tickets_.size() < missing_.size() && missing_[tickets_.size()] == 0) {
    const Bucket& bucket = buckets_.buckets()[tickets_.size()];
    ASSIGN_OR_RETURN(const CollectiveTicket ticket,
                     collective_->StartAllReduce(absl::MakeSpan(flat_).subspan(
                         bucket.begin, bucket.elements)));
    tickets_.push_back(ticket);
  }
  return absl::OkStatus();
}

absl::Status GradientReducer::Finish() {
  const auto absent = std::find(given_.begin(), given_.end(), false);
  if (absent != given_.end()) {
    return absl::FailedPreconditionError(
        absl::StrCat("gradient of parameter ", absent - given_.begin(),
                     " was not given in this step"));
  }
  for (size_t b = 0; b < tickets_.size(); ++b) {
    RETURN_IF_ERROR(collective_->Wait(tickets_[b]));
    const Bucket& bucket = buckets_.buckets()[b];
    DivideByRanks(absl::MakeSpan(flat_).subspan(bucket.begin, bucket.elements),
                  collective_->size());
    missing_[b] = bucket.parameters.size();
  }
  tickets_.clear();
  given_.assign(given_.size(), false);
  return absl::OkStatus();
}

}  // namespace gpupool::engine
