#include <sys/eventfd.h>
#include <unistd.h>

#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/ipc/slot_ring.h"

namespace gpupool::server {
namespace {

absl::StatusOr<UniqueFd> MakeBell() {
  UniqueFd bell(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!bell.valid()) {
    return absl::ResourceExhaustedError(
        "cannot create an eventfd: too many open files");
  }
  return bell;
}

}  // namespace

Slot& Slot::operator=(Slot&& other) noexcept {
  if (this == &other) return *this;
  if (ring_ != nullptr) ring_->Free(index_);
  ring_ = std::move(other.ring_);
  index_ = other.index_;
  return *this;
}

Slot::~Slot() {
  if (ring_ != nullptr) ring_->Free(index_);
}

SlotHeader& Slot::header() { return ring_->entries_[index_].header; }

absl::Span<std::byte> Slot::payload() {
  return {ring_->SlotAddress(index_) + ring_->geometry_.payload_offset,
          ring_->geometry_.slot_bytes};
}

absl::Span<const std::byte> Slot::output(uint32_t i) {
  const SlotTensor& tensor = header().outputs[i];
  return payload().subspan(tensor.offset, tensor.bytes);
}

absl::StatusOr<std::shared_ptr<SlotRingClient>> SlotRingClient::Create(
    const SlotRingOptions& options) {
  ASSIGN_OR_RETURN(const RingGeometry geometry,
                   ComputeRingGeometry(options.slot_count, options.slot_bytes));
  ASSIGN_OR_RETURN(
      MemoryRegion region,
      MemoryRegion::Create("gpupool-slot-ring", geometry.region_bytes));
  ASSIGN_OR_RETURN(UniqueFd worker_bell, MakeBell());
  ASSIGN_OR_RETURN(UniqueFd daemon_bell, MakeBell());
  new (region.data()) RingHeader{kRingMagic, kRingVersion, geometry.slot_count,
                                 geometry.slot_bytes};
  std::shared_ptr<SlotRingClient> ring(
      new SlotRingClient(std::move(region), geometry, std::move(worker_bell),
                         std::move(daemon_bell)));
  ring->completion_thread_ = std::thread([ring] { ring->RunCompletions(); });
  return ring;
}

SlotRingClient::SlotRingClient(MemoryRegion region,
                               const RingGeometry& geometry,
                               UniqueFd worker_bell, UniqueFd daemon_bell)
    : region_(std::move(region)),
      geometry_(geometry),
      worker_bell_(std::move(worker_bell)),
      daemon_bell_(std::move(daemon_bell)),
      completions_(region_.data() + geometry.completion_offset,
                   geometry.queue_capacity, daemon_bell_.get()),
      submissions_(region_.data() + geometry.submission_offset,
                   geometry.queue_capacity, worker_bell_.get()),
      entries_(geometry.slot_count) {
  // Slots are taken from the end, so slot 0 comes first.
  for (uint32_t i = geometry.slot_count; i > 0; --i) free_.push_back(i - 1);
}

SlotRingClient::~SlotRingClient() {
  // The thread holds a reference, so the last one may go on that very thread.
  // It cannot join itself.
  if (completion_thread_.joinable()) completion_thread_.detach();
}

std::optional<Slot> SlotRingClient::Acquire() {
  return AcquireUntil(absl::InfinitePast());
}

std::optional<Slot> SlotRingClient::AcquireUntil(absl::Time deadline) {
  absl::MutexLock lock(&mutex_);
  const auto free_or_failed = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return !free_.empty() || !failure_.ok();
  };
  mutex_.AwaitWithDeadline(absl::Condition(&free_or_failed), deadline);
  if (free_.empty() || !failure_.ok()) return std::nullopt;
  const uint32_t index = free_.back();
  free_.pop_back();
  // Answers of the former holder must not be visible to the next one.
  entries_[index].header = SlotHeader{};
  return Slot(shared_from_this(), index);
}

void SlotRingClient::NotifyWhenFree(std::function<void()> callback) {
  {
    absl::MutexLock lock(&mutex_);
    if (free_.empty() && failure_.ok()) {
      waiters_.push_back(std::move(callback));
      return;
    }
  }
  // A slot is free already, or the ring has failed. The caller must not wait
  // for ever.
  callback();
}

void SlotRingClient::Submit(Slot slot, Done done) {
  const uint32_t index = slot.index_;
  SlotHeader& header = entries_[index].header;
  absl::Status status = CheckSlotHeader(header, geometry_.slot_bytes);
  if (status.ok()) {
    absl::MutexLock lock(&mutex_);
    status = failure_;
    if (status.ok()) {
      header.sequence = next_sequence_++;
      // Under the lock, so that FailAll finds the slot either not submitted or
      // outstanding. Push orders the copy before the entry.
      CopySlotRequest(header,
                      reinterpret_cast<SlotHeader*>(SlotAddress(index)));
      entries_[index].done = std::move(done);
      // A queue has room for every slot, so this push never waits.
      submissions_.Push((header.sequence << 32) | index);
      slot.ring_.reset();  // outstanding: not held any more
      return;
    }
  }
  done(status, std::move(slot));
}

// Runs the callbacks of answered slots until FailAll or corruption.
void SlotRingClient::RunCompletions() {
  while (!stop_.load()) {
    switch (completions_.Look()) {
      case SlotQueue::Ready::kEmpty:
        completions_.Wait(-1, absl::InfiniteDuration());
        break;
      case SlotQueue::Ready::kEntry:
        Complete(completions_.Pop());
        break;
      case SlotQueue::Ready::kCorrupt:
        FailOutstanding(absl::InternalError(
            "the worker has overwritten its completion queue"));
        break;
    }
  }
}

void SlotRingClient::Complete(uint64_t queue_entry) {
  const uint32_t index = static_cast<uint32_t>(queue_entry);
  // The sequence tells a late second answer from the answer to the slot's next
  // request.
  const uint32_t sequence = static_cast<uint32_t>(queue_entry >> 32);
  Done done;
  {
    absl::MutexLock lock(&mutex_);
    if (index < entries_.size() &&
        static_cast<uint32_t>(entries_[index].header.sequence) == sequence) {
      done = std::exchange(entries_[index].done, nullptr);
    }
  }
  if (done == nullptr) {
    FailOutstanding(absl::InternalError(absl::StrCat(
        "the worker has answered slot ", index, ", which it was not asked")));
    return;
  }
  absl::Status answer = ReadAnswer(index);
  done(std::move(answer), Slot(shared_from_this(), index));
}

// Copies the worker's part of the header out of shared memory once, and checks
// the copy.
absl::Status SlotRingClient::ReadAnswer(uint32_t index) {
  SlotHeader& header = entries_[index].header;
  SlotHeader answer;
  CopySlotAnswer(*reinterpret_cast<const SlotHeader*>(SlotAddress(index)),
                 header.output_count, &answer);
  header.compute_nanos = answer.compute_nanos;
  header.wait_nanos = answer.wait_nanos;
  header.code = answer.code;
  std::memcpy(header.error, answer.error, sizeof(header.error));
  // The worker may have left the text unterminated.
  header.error[sizeof(header.error) - 1] = '\0';
  header.compiled_programs = answer.compiled_programs;
  header.evicted_programs = answer.evicted_programs;
  if (header.code == 0) {
    const absl::Status taken = TakeOutputDims(answer, &header);
    if (taken.ok()) return taken;
    return absl::InternalError(
        absl::StrCat("the worker's answer is corrupt: ", taken.message()));
  }
  constexpr int kLargestCode = 16;  // Unauthenticated
  if (header.code < 0 || header.code > kLargestCode) {
    return absl::InternalError(absl::StrCat(
        "the worker has answered with the unknown code ", header.code));
  }
  return absl::Status(static_cast<absl::StatusCode>(header.code), header.error);
}

void SlotRingClient::FailOutstanding(const absl::Status& status) {
  stop_.store(true);
  std::vector<std::pair<uint32_t, Done>> outstanding;
  std::vector<std::function<void()>> waiters;
  {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = status;
    for (uint32_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].done == nullptr) continue;
      outstanding.emplace_back(i, std::exchange(entries_[i].done, nullptr));
    }
    waiters.swap(waiters_);
  }
  // Without the lock: callbacks may submit, acquire or free slots.
  for (auto& [index, done] : outstanding) {
    done(status, Slot(shared_from_this(), index));
  }
  for (const auto& waiter : waiters) waiter();
}

void SlotRingClient::FailAll(const absl::Status& status) {
  stop_.store(true);
  std::thread thread;
  {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = status;
    thread.swap(completion_thread_);
  }
  if (thread.joinable()) {
    const uint64_t one = 1;
    // Cannot fail, since the thread that this wakes drains the counter.
    if (::write(daemon_bell_.get(), &one, sizeof(one)) < 0) {
    }
    // Joined before the rest is answered, so that no Done runs twice or at the
    // same time.
    thread.join();
    DeliverAnswered();
  }
  FailOutstanding(status);
}

// Delivers the answers that arrived before the worker was lost.
void SlotRingClient::DeliverAnswered() {
  for (uint32_t i = 0; i < geometry_.slot_count; ++i) {
    if (completions_.Look() != SlotQueue::Ready::kEntry) return;
    Complete(completions_.Pop());
  }
}

bool SlotRingClient::failed() const {
  absl::MutexLock lock(&mutex_);
  return !failure_.ok();
}

std::array<int, 3> SlotRingClient::descriptors() const {
  return {region_.fd(), worker_bell_.get(), daemon_bell_.get()};
}

uint32_t SlotRingClient::slots_in_use() const {
  absl::MutexLock lock(&mutex_);
  return geometry_.slot_count - static_cast<uint32_t>(free_.size());
}

void SlotRingClient::Free(uint32_t index) {
  std::vector<std::function<void()>> waiters;
  {
    absl::MutexLock lock(&mutex_);
    free_.push_back(index);
    waiters.swap(waiters_);
  }
  for (const auto& waiter : waiters) waiter();
}

std::byte* SlotRingClient::SlotAddress(uint32_t index) const {
  return region_.data() + geometry_.slots_offset +
         geometry_.slot_stride * index;
}

}  // namespace gpupool::server
