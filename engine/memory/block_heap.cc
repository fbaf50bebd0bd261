#include "engine/memory/block_heap.h"

#include <algorithm>

#include "engine/base/check.h"

namespace gpupool::engine {
BlockHeap::BlockHeap(PageSource* source, uint64_t range_bytes,
                     const TimelineSource* timeline, History* history)
    : source_(source),
      granularity_(source->granularity()),
      range_bytes_(range_bytes),
      timeline_(timeline),
      history_(history),
      chunks_(source) {}

BlockHeap::~BlockHeap() {
  // A held block would point into ranges that are freed below.
  GPUPOOL_CHECK(used_.blocks == 0);
  // The caller has waited for all streams, so every use has ended.
  for (Leaving& leaving : leaving_) MakeFree(leaving.block, Moment());
  for (auto& [id, frees] : streams_) {
    while (Block* block = frees.first()) {
      Unlink(block);
      MakeFree(block, Moment());
    }
  }
  Trim(chunks_.bytes());
  chunks_.Clear();
  for (const Range& range : ranges_) {
    source_->FreeRange(range.at).IgnoreError();  // no caller can handle it
  }
}

Block* BlockHeap::NewBlock(uint64_t address, uint64_t bytes) {
  // Blocks are recycled, because storage_ only grows to keep addresses stable.
  Block* block = spare_;
  if (block == nullptr) {
    block = &storage_.emplace_back();
  } else {
    spare_ = block->next_free;
  }
  block->address = address;
  block->bytes = bytes;
  return block;
}

void BlockHeap::Recycle(Block* block) {
  block->next_free = spare_;
  spare_ = block;
}

Block* BlockHeap::SplitOff(Block* block, uint64_t address) {
  Block* const rest = NewBlock(address, block->end() - address);
  rest->state = block->state;
  // The rest is free at the same moment as the whole was.
  rest->stream = block->stream;
  rest->after = block->after;
  rest->previous = block;
  rest->next = block->next;
  block->next->previous = rest;
  block->next = rest;
  block->bytes -= rest->bytes;
  return rest;
}

void BlockHeap::JoinNext(Block* block) {
  Block* const next = block->next;
  block->bytes += next->bytes;
  block->next = next->next;
  block->next->previous = block;
  Recycle(next);
}

void BlockHeap::Link(Block* block) {
  // Counter 0 is passed from the start: such a block is free for all streams.
  Add(free_, *block);
  if (block->after.counter == 0) return common_.Insert(block);
  streams_[block->after.stream].Insert(block);
}

void BlockHeap::Unlink(Block* block) {
  Subtract(free_, *block);
  if (block->home == &common_) return common_.Remove(block);
  streams_.find(block->after.stream)->second.Remove(block);
}

void BlockHeap::MakeFree(Block* block, Moment after) {
  const StreamId stream = after.stream;
  uint64_t counter = after.counter;
  const FreeIndex* const home =
      counter == 0 ? &common_ : &streams_[stream].index();
  // Only neighbours of the same index are merged: others are not free for the
  // same streams. A merged block is free when its last part is.
  if (block->next->home == home) {
    Unlink(block->next);
    counter = std::max(counter, block->next->after.counter);
    JoinNext(block);
  }
  // The first block of a range has nothing before it. Behind the last one there
  // is always an end block.
  if (block->previous != nullptr && block->previous->home == home) {
    block = block->previous;
    Unlink(block);
    counter = std::max(counter, block->after.counter);
    JoinNext(block);
  }
  block->state = BlockState::kFree;
  block->stream = stream;
  block->after = {stream, counter};
  Link(block);
}

Block* BlockHeap::Find(uint64_t bytes, StreamId stream) {
  // The stream's own blocks come first: other streams cannot use them yet.
  if (!streams_.empty()) {
    const auto own = streams_.find(stream);
    if (own != streams_.end()) {
      Block* const block = own->second.index().Find(bytes);
      if (block != nullptr) return block;
    }
  }
  return common_.Find(bytes);
}

Block* BlockHeap::FindPending(uint64_t bytes) {
  for (auto& [id, frees] : streams_) {
    if (Block* block = frees.index().Find(bytes); block != nullptr) {
      return block;
    }
  }
  return nullptr;
}

void BlockHeap::Take(Block* block, uint64_t bytes, StreamId stream) {
  Unlink(block);
  if (block->bytes > bytes) Link(SplitOff(block, block->address + bytes));
  block->state = BlockState::kUsed;
  block->stream = stream;
  Add(used_, *block);
}

bool BlockHeap::IsOpen(const Moment& moment) const {
  return moment.counter > 0 && timeline_ != nullptr &&
         timeline_->Completed(moment.stream) < moment.counter;
}

// Returns the uses that have not ended: the latest one of each stream.
std::vector<Moment> BlockHeap::OpenMoments(
    const Block& block, absl::Span<const Moment> uses) const {
  std::vector<Moment> open;
  bool own_stream = false;
  const auto add = [&](const Moment& moment) {
    if (!IsOpen(moment)) return;
    for (Moment& known : open) {
      if (known.stream != moment.stream) continue;
      known.counter = std::max(known.counter, moment.counter);
      return;
    }
    open.push_back(moment);
  };
  for (const Moment& use : uses) {
    add(use);
    own_stream |= use.stream == block.stream;
  }
  // Adds what the block had to wait for, unless its own stream used it: a later
  // use on that stream ends after the awaited moment anyway.
  if (!own_stream) add(block.after);
  return open;
}

bool BlockHeap::Return(Block* block, absl::Span<const Moment> uses) {
  Subtract(used_, *block);
  block->account = nullptr;
  if (!uses.empty() || block->after.counter > 0) return Leave(block, uses);
  MakeFree(block, Moment());
  return true;
}

bool BlockHeap::Leave(Block* block, absl::Span<const Moment> uses) {
  std::vector<Moment> open = OpenMoments(*block, uses);
  // With one open stream, the order of that stream keeps the uses apart.
  if (open.size() < 2) {
    MakeFree(block, open.empty() ? Moment() : open.front());
    return true;
  }
  block->state = BlockState::kLeaving;
  Add(LeftOf(*block), *block);
  leaving_.push_back({block, std::move(open)});
  return false;
}

bool BlockHeap::Settle() {
  bool any = false;
  for (auto& [id, frees] : streams_) {
    if (frees.first() == nullptr) continue;
    const uint64_t completed = timeline_->Completed(id);
    // The list is ordered by counter, so it can stop at the first open one.
    while (Block* block = frees.first()) {
      if (block->after.counter > completed) break;
      Unlink(block);
      MakeFree(block, Moment());
      any = true;
    }
  }
  // With one open stream left, the block moves to that stream's index.
  for (size_t i = 0; i < leaving_.size();) {
    std::vector<Moment>& open = leaving_[i].open;
    open.erase(std::remove_if(open.begin(), open.end(),
                              [this](const Moment& at) { return !IsOpen(at); }),
               open.end());
    if (open.size() > 1) {
      ++i;
      continue;
    }
    Block* const block = leaving_[i].block;
    const Moment after = open.empty() ? Moment() : open.front();
    // The index does not advance, because another block is now at this place.
    std::swap(leaving_[i], leaving_.back());
    leaving_.pop_back();
    Subtract(LeftOf(*block), *block);
    if (history_->on()) {
      history_->Record({MemoryAction::kFreeCompleted, block->address,
                        block->requested_bytes, block->stream});
    }
    MakeFree(block, after);
    any = true;
  }
  return any;
}

void BlockHeap::ForEachBlock(
    const std::function<void(const Block&)>& visit) const {
  for (const Range& range : ranges_) {
    for (const Block* block = range.first; block != range.end;
         block = block->next) {
      visit(*block);
    }
  }
}

uint64_t BlockHeap::largest_free_bytes() const {
  uint64_t largest = common_.largest_bytes();
  for (const auto& [id, frees] : streams_) {
    largest = std::max(largest, frees.index().largest_bytes());
  }
  return largest;
}

}  // namespace gpupool::engine
