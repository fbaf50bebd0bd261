#include "engine/train/input/batch_landing.h"

#include <utility>

#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

void LandingLayout::Add(const std::string& name, uint64_t size) {
  tensors.push_back({name, bytes, size});
  bytes += AlignUp(size);
}

std::vector<std::string> LandingLayout::names() const {
  std::vector<std::string> names;
  for (const Tensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

absl::StatusOr<std::unique_ptr<BatchLanding>> BatchLanding::Create(
    LandingLayout layout, const std::string& holder,
    CachingAllocator* allocator, Transfer* transfer) {
  GPUPOOL_CHECK(layout.bytes > 0 && transfer->beside() != nullptr);
  std::unique_ptr<BatchLanding> landing(
      new BatchLanding(std::move(layout), transfer));
  const uint64_t bytes = landing->layout_.bytes;
  for (auto& staging : landing->staging_) {
    ASSIGN_OR_RETURN(staging, landing->beside_->AllocateStaging(bytes));
  }
  ASSIGN_OR_RETURN(landing->landing_,
                   allocator->Allocate(bytes, {holder, "next batch"}));
  return landing;
}

BatchLanding::~BatchLanding() { beside_->Synchronize().IgnoreError(); }

absl::Span<std::byte> BatchLanding::input(absl::string_view name) const {
  for (const LandingLayout::Tensor& tensor : layout_.tensors) {
    if (tensor.name == name) {
      return {staging_[next_]->data() + tensor.offset, tensor.bytes};
    }
  }
  return {};
}

absl::Status BatchLanding::Send(uint64_t batch) {
  GPUPOOL_CHECK(!sent_.has_value());
  RETURN_IF_ERROR(beside_->CopyToDevice(
      landing_.data(), {staging_[next_]->data(), layout_.bytes}));
  // The copy still reads this buffer, so the next batch fills the other.
  next_ = 1 - next_;
  sent_ = batch;
  return absl::OkStatus();
}

absl::Status BatchLanding::Take(Executor& executor) {
  GPUPOOL_CHECK(sent_.has_value());
  sent_.reset();
  // The copies into the inputs wait for the landing to be filled. The next copy
  // to the landing waits until they have read it.
  RETURN_IF_ERROR(transfer_->Await(*beside_));
  for (const LandingLayout::Tensor& tensor : layout_.tensors) {
    RETURN_IF_ERROR(executor.Bring(
        tensor.name, {landing_.data() + tensor.offset, tensor.bytes}));
  }
  return beside_->Await(*transfer_);
}

}  // namespace gpupool::engine
