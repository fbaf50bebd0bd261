#include "engine/train/input/batch_loader.h"

#include <new>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace gpupool::engine {

absl::StatusOr<std::unique_ptr<BatchLoader>> BatchLoader::Start(
    const BatchLoaderOptions& options, BatchMaker maker) {
  GPUPOOL_CHECK(options.workers > 0 && options.prefetch > 0);
  std::unique_ptr<BatchLoader> loader(
      new BatchLoader(options, std::move(maker)));
  loader->slots_.resize(options.prefetch);
  for (Slot& slot : loader->slots_) {
    slot.memory.reset(new (std::nothrow) std::byte[options.batch_bytes]);
    if (slot.memory != nullptr) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the host has no memory for ", options.prefetch, " batches of ",
        options.batch_bytes, " bytes; lower data.loader.prefetch"));
  }
  try {
    for (uint32_t i = 0; i < options.workers; ++i) {
      loader->threads_.emplace_back([raw = loader.get()] { raw->Work(); });
    }
    // The constructor of std::thread throws. The destructor of the loader joins
    // the threads that have started.
  } catch (const std::system_error& error) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host refuses ", options.workers, " threads (",
                     error.what(), "); lower data.loader.workers"));
  }
  return loader;
}

BatchLoader::~BatchLoader() {
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
}

void BatchLoader::Work() {
  for (;;) {
    uint64_t number = 0;
    std::vector<uint32_t> rows;
    {
      absl::MutexLock lock(&mutex_);
      const auto must_wake = [this] {
        mutex_.AssertHeld();
        return MustWake();
      };
      mutex_.Await(absl::Condition(&must_wake));
      if (stopped_ || next_ >= options_.end) return;
      // The lock covers both lines. Rows are drawn in the order of the numbers,
      // so the batches do not depend on how the threads are scheduled.
      number = next_++;
      rows = maker_.rows();
    }
    Slot& slot = SlotOf(number);
    // The slot belongs to this thread until `made` is set, so no lock is held.
    absl::Status status = maker_.fill(
        number, rows, absl::MakeSpan(slot.memory.get(), options_.batch_bytes));
    absl::MutexLock lock(&mutex_);
    slot.status = std::move(status);
    slot.made = true;
  }
}

absl::Status BatchLoader::Take(
    uint64_t number, absl::FunctionRef<void(absl::Span<const std::byte>)> use) {
  Slot& slot = SlotOf(number);
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    GPUPOOL_CHECK(number == taken_ && number < options_.end);
    mutex_.Await(absl::Condition(&slot.made));
    status = slot.status;
  }
  if (status.ok()) {
    // No lock is held here. A thread fills the slot again only after `taken_`
    // has passed this number.
    use(absl::MakeConstSpan(slot.memory.get(), options_.batch_bytes));
  }
  absl::MutexLock lock(&mutex_);
  slot.made = false;
  ++taken_;
  return status;
}

}  // namespace gpupool::engine
