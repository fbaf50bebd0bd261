// The part of BlockHeap that chooses the stream to wait for.
#include <algorithm>

#include "engine/base/align.h"
#include "engine/memory/block_heap.h"

namespace gpupool::engine {

bool BlockHeap::IsFreeAfter(const Block& block, const Moment& moment) const {
  const auto passed = [&](const Moment& use) {
    return use.counter == 0 ||
           (use.stream == moment.stream && use.counter <= moment.counter);
  };
  if (block.state == BlockState::kFree) return passed(block.after);
  if (block.state != BlockState::kLeaving) return false;
  const auto leaving =
      std::find_if(leaving_.begin(), leaving_.end(),
                   [&](const Leaving& at) { return at.block == &block; });
  return leaving != leaving_.end() &&
         std::all_of(leaving->open.begin(), leaving->open.end(), passed);
}

bool BlockHeap::ServesAfter(const Moment& moment, uint64_t bytes,
                            uint64_t most_mapped_bytes) const {
  // Adjacent blocks that would all be free count as one run. Whole chunks in a
  // run could be unmapped and mapped elsewhere.
  PageRange run;
  uint64_t longest = 0;
  uint64_t whole_bytes = 0;
  const auto end_run = [&] {
    longest = std::max(longest, run.bytes);
    if (run.bytes > 0) whole_bytes += chunks_.WholeBytesIn(run);
    run = PageRange();
  };
  ForEachBlock([&](const Block& block) {
    if (!IsFreeAfter(block, moment)) return end_run();
    if (run.end() != block.address) end_run();
    if (run.bytes == 0) run.address = block.address;
    run.bytes += block.bytes;
  });
  end_run();
  const uint64_t mapped = chunks_.bytes() - whole_bytes;
  return longest >= bytes ||
         mapped + AlignUp(bytes, granularity_) <= most_mapped_bytes;
}

std::optional<Moment> BlockHeap::MomentToWaitFor(
    uint64_t bytes, uint64_t most_mapped_bytes) const {
  // Collects the counters at which something becomes free, by stream.
  std::map<StreamId, std::vector<uint64_t>> open;
  for (const auto& [id, frees] : streams_) {
    for (const Block* block = frees.first(); block != nullptr;
         block = block->later) {
      open[id].push_back(block->after.counter);
    }
  }
  for (const Leaving& leaving : leaving_) {
    for (const Moment& moment : leaving.open) {
      open[moment.stream].push_back(moment.counter);
    }
  }
  std::optional<Moment> best;
  uint64_t best_distance = 0;
  for (auto& [id, counters] : open) {
    std::sort(counters.begin(), counters.end());
    // Finds the smallest counter by bisection: later moments free no less.
    const auto enough = std::partition_point(
        counters.begin(), counters.end(), [&, id = id](uint64_t counter) {
          return !ServesAfter({id, counter}, bytes, most_mapped_bytes);
        });
    if (enough == counters.end()) continue;
    const uint64_t completed = timeline_->Completed(id);
    const uint64_t distance = *enough > completed ? *enough - completed : 0;
    if (best.has_value() && distance >= best_distance) continue;
    best = Moment{id, *enough};
    best_distance = distance;
  }
  if (best.has_value() || open.empty()) return best;
  const auto& [id, counters] = *open.begin();
  return Moment{id, counters.back()};
}

}  // namespace gpupool::engine
