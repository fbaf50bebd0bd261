#include "engine/train/checkpoint_tensors.h"

#include "absl/container/flat_hash_set.h"
#include "engine/base/status_macros.h"
#include "engine/model/trained_weights.h"

namespace gpupool::engine {
namespace {

// Returns the entry of the weight's average; null when it has none.
const WeightEntry* AverageOf(const WeightLayout& layout,
                             const WeightEntry& weight) {
  const WeightEntry* average = layout.Find(AverageName(weight.name));
  return average != nullptr && average->in_optimizer_block() ? average
                                                             : nullptr;
}

TensorBytes Tensor(const WeightView& weights, const WeightEntry& entry,
                   const std::string& name) {
  return {{name, entry.dtype, entry.shape}, weights.bytes_of(entry)};
}

}  // namespace

std::vector<TensorBytes> ModelTensors(const WeightView& weights) {
  std::vector<TensorBytes> tensors;
  for (const WeightEntry& entry : weights.layout().entries()) {
    if (entry.in_optimizer_block()) continue;
    const WeightEntry* average = AverageOf(weights.layout(), entry);
    tensors.push_back(
        Tensor(weights, average != nullptr ? *average : entry, entry.name));
  }
  return tensors;
}

std::vector<TensorBytes> OptimizerTensors(const WeightView& weights) {
  std::vector<TensorBytes> tensors;
  // Averages are in the "weights" file, and accumulated gradients in none.
  absl::flat_hash_set<std::string> elsewhere;
  for (const WeightEntry& entry : weights.layout().entries()) {
    if (entry.in_optimizer_block()) continue;
    elsewhere.insert(AverageName(entry.name));
    elsewhere.insert(AccumulatorName(entry.name));
    if (AverageOf(weights.layout(), entry) == nullptr) continue;
    tensors.push_back(Tensor(weights, entry, entry.name));
  }
  for (const WeightEntry& entry : weights.layout().entries()) {
    if (!entry.in_optimizer_block() || elsewhere.contains(entry.name)) continue;
    tensors.push_back(Tensor(weights, entry, entry.name));
  }
  return tensors;
}

absl::Status StartAverages(const WeightStore& store) {
  for (const WeightEntry& entry : store.layout().entries()) {
    if (entry.in_optimizer_block()) continue;
    const WeightEntry* average = AverageOf(store.layout(), entry);
    if (average != nullptr) RETURN_IF_ERROR(store.Copy(entry, *average));
  }
  return store.transfer().Synchronize();
}

}  // namespace gpupool::engine
