#include "tests/engine/memory/transformer_trace.h"

#include <algorithm>
#include <random>

namespace gpupool::engine {
namespace {

constexpr int kLayers = 12;
constexpr uint64_t kWidth = 768;
constexpr uint64_t kHeads = 12;
constexpr uint64_t kVocabulary = 30522;
constexpr uint64_t kFloat = 4;

// Writes events. A tensor's number is its id.
class TraceWriter {
 public:
  uint32_t Allocate(uint64_t elements) {
    sizes_.push_back(elements * kFloat);
    const auto id = static_cast<uint32_t>(sizes_.size() - 1);
    events_.push_back({id, sizes_.back()});
    return id;
  }
  void Free(uint32_t id) { events_.push_back({id, 0}); }
  void Free(std::vector<uint32_t>& ids) {
    while (!ids.empty()) {
      Free(ids.back());
      ids.pop_back();
    }
  }
  std::vector<TraceEvent> Take() { return std::move(events_); }

 private:
  std::vector<uint64_t> sizes_;
  std::vector<TraceEvent> events_;
};

std::vector<uint64_t> WeightSizes() {
  std::vector<uint64_t> sizes = {kVocabulary * kWidth, 512 * kWidth};
  for (int layer = 0; layer < kLayers; ++layer) {
    for (const uint64_t elements :
         {kWidth, kWidth, 3 * kWidth * kWidth, 3 * kWidth, kWidth * kWidth,
          kWidth, kWidth, kWidth, 4 * kWidth * kWidth, 4 * kWidth,
          4 * kWidth * kWidth, kWidth}) {
      sizes.push_back(elements);
    }
  }
  return sizes;
}

struct Sizes {
  uint64_t batch = 16;
  uint64_t length = 256;
  uint64_t tokens() const { return batch * length; }
  uint64_t scores() const { return batch * kHeads * length * length; }
};

// Adds one layer and returns its output. Takes over `input`. Tensors that a
// backward pass needs go to `kept`, and the others are freed.
uint32_t Layer(TraceWriter& writer, const Sizes& sizes, uint32_t input,
               std::vector<uint32_t>& kept) {
  const uint64_t row = sizes.tokens() * kWidth;
  const uint32_t statistics = writer.Allocate(2 * sizes.tokens());
  const uint32_t normed = writer.Allocate(row);
  const uint32_t joined = writer.Allocate(3 * row);
  const uint32_t scores = writer.Allocate(sizes.scores());
  const uint32_t shares = writer.Allocate(sizes.scores());
  writer.Free(scores);
  const uint32_t context = writer.Allocate(row);
  const uint32_t merged = writer.Allocate(row);
  const uint32_t projected = writer.Allocate(row);
  const uint32_t middle = writer.Allocate(row);
  writer.Free(projected);
  writer.Free(context);
  const uint32_t second = writer.Allocate(row);
  const uint32_t wide = writer.Allocate(4 * row);
  const uint32_t curved = writer.Allocate(4 * row);
  const uint32_t narrow = writer.Allocate(row);
  const uint32_t output = writer.Allocate(row);
  writer.Free(narrow);
  for (const uint32_t id : {input, statistics, normed, joined, shares, merged,
                            middle, second, wide, curved}) {
    kept.push_back(id);
  }
  return output;
}

void Infer(TraceWriter& writer, const Sizes& sizes) {
  const uint32_t ids = writer.Allocate(2 * sizes.tokens());
  uint32_t state = writer.Allocate(sizes.tokens() * kWidth);
  for (int layer = 0; layer < kLayers; ++layer) {
    std::vector<uint32_t> kept;
    state = Layer(writer, sizes, state, kept);
    writer.Free(kept);
  }
  const uint32_t answer = writer.Allocate(sizes.batch * kWidth);
  writer.Free(state);
  writer.Free(ids);
  writer.Free(answer);
}

void TrainStep(TraceWriter& writer, const Sizes& sizes,
               const std::vector<uint64_t>& weights) {
  const uint64_t row = sizes.tokens() * kWidth;
  const uint32_t ids = writer.Allocate(2 * sizes.tokens());
  uint32_t state = writer.Allocate(row);
  std::vector<std::vector<uint32_t>> kept(kLayers);
  for (auto& layer : kept) state = Layer(writer, sizes, state, layer);
  uint32_t gradient = writer.Allocate(row);
  writer.Free(state);
  std::vector<uint32_t> gradients;
  for (int layer = kLayers - 1; layer >= 0; --layer) {
    const uint32_t wide = writer.Allocate(4 * row);
    const uint32_t curved = writer.Allocate(4 * row);
    const uint32_t shares = writer.Allocate(sizes.scores());
    const uint32_t scores = writer.Allocate(sizes.scores());
    const uint32_t joined = writer.Allocate(3 * row);
    const uint32_t next = writer.Allocate(row);
    for (int i = 0; i < 12; ++i) {
      gradients.push_back(writer.Allocate(weights[2 + i]));
    }
    for (const uint32_t id : {wide, curved, shares, scores, joined, gradient}) {
      writer.Free(id);
    }
    writer.Free(kept[layer]);
    gradient = next;
  }
  gradients.push_back(writer.Allocate(weights[0]));
  gradients.push_back(writer.Allocate(weights[1]));
  writer.Free(gradient);
  writer.Free(ids);
  writer.Free(gradients);
}

}  // namespace

std::vector<TraceEvent> TransformerTrace(const TraceOptions& options) {
  std::mt19937 random(options.seed);
  TraceWriter writer;
  const std::vector<uint64_t> weights = WeightSizes();
  // Adam keeps two numbers for each weight.
  const int copies = options.training ? 3 : 1;
  for (int copy = 0; copy < copies; ++copy) {
    for (const uint64_t elements : weights) writer.Allocate(elements);
  }
  for (int round = 0; round < options.rounds; ++round) {
    Sizes sizes;
    if (options.variable_shapes) {
      sizes.batch = 1 + random() % 32;
      sizes.length = 64 + random() % 449;
    }
    options.training ? TrainStep(writer, sizes, weights) : Infer(writer, sizes);
  }
  return writer.Take();
}

uint64_t PeakBytes(const std::vector<TraceEvent>& trace) {
  std::vector<uint64_t> sizes;
  uint64_t live = 0, peak = 0;
  for (const TraceEvent& event : trace) {
    if (event.bytes == 0) {
      live -= sizes[event.id];
      continue;
    }
    if (event.id >= sizes.size()) sizes.resize(event.id + 1);
    sizes[event.id] = event.bytes;
    live += event.bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace gpupool::engine
