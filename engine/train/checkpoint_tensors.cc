#include "engine/train/checkpoint_tensors.h"

#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "engine/import/trained_weights.h"

namespace gpupool::engine {
namespace {

// The entry of the weight's average; nullptr when it has none.
const WeightEntry* AverageOf(const WeightStore& store,
                             const WeightEntry& weight) {
  const WeightEntry* average = store.layout().Find(AverageName(weight.name));
  return average != nullptr && average->in_optimizer_block() ? average
                                                             : nullptr;
}

TensorBytes Tensor(const WeightStore& store, const WeightEntry& entry,
                   const std::string& name) {
  return {{name, entry.dtype, entry.shape}, store.bytes_of(entry)};
}

}  // namespace

std::vector<TensorBytes> ModelTensors(const WeightStore& store) {
  std::vector<TensorBytes> tensors;
  for (const WeightEntry& entry : store.layout().entries()) {
    if (entry.in_optimizer_block()) continue;
    const WeightEntry* average = AverageOf(store, entry);
    tensors.push_back(
        Tensor(store, average != nullptr ? *average : entry, entry.name));
  }
  return tensors;
}

std::vector<TensorBytes> OptimizerTensors(const WeightStore& store) {
  std::vector<TensorBytes> tensors;
  absl::flat_hash_set<std::string> elsewhere;
  for (const WeightEntry& entry : store.layout().entries()) {
    if (entry.in_optimizer_block()) continue;
    elsewhere.insert(AverageName(entry.name));
    elsewhere.insert(AccumulatorName(entry.name));
    if (AverageOf(store, entry) == nullptr) continue;
    tensors.push_back(Tensor(store, entry, entry.name));
  }
  for (const WeightEntry& entry : store.layout().entries()) {
    if (!entry.in_optimizer_block() || elsewhere.contains(entry.name)) continue;
    tensors.push_back(Tensor(store, entry, entry.name));
  }
  return tensors;
}

void StartAverages(const WeightStore& store) {
  for (const WeightEntry& entry : store.layout().entries()) {
    if (entry.in_optimizer_block()) continue;
    const WeightEntry* average = AverageOf(store, entry);
    if (average == nullptr) continue;
    std::memcpy(store.bytes_of(*average).data(), store.bytes_of(entry).data(),
                entry.bytes());
  }
}

}  // namespace gpupool::engine
