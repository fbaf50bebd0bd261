#include "engine/train/rank_link.h"

#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "engine/collective/gloo_collective.h"
#include "engine/runtime/weight_view.h"

namespace gpupool::engine {
namespace {

// Returns a digest of the step and all tensors. Ranks exchange it instead of
// the tensors.
absl::StatusOr<std::string> DigestOf(uint64_t step, const WeightStore& store) {
  ASSIGN_OR_RETURN(const WeightView weights, WeightView::Read(store));
  Sha256 digest;
  digest.Update(&step, sizeof(step));
  for (const WeightEntry& entry : store.layout().entries()) {
    const absl::Span<const std::byte> bytes = weights.bytes_of(entry);
    digest.Update(entry.name);
    digest.Update(bytes.data(), bytes.size());
  }
  return digest.FinishHex();
}

// Returns the running statistics, which differ between ranks.
std::vector<const WeightEntry*> StateOf(const WeightStore& store) {
  std::vector<const WeightEntry*> state;
  for (const WeightEntry& entry : store.layout().entries()) {
    if (entry.memory_class == MemoryClass::kState) state.push_back(&entry);
  }
  return state;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RankLink>> RankLink::Connect(
    const RankGroup& group) {
  std::unique_ptr<RankLink> link(new RankLink(group));
  ASSIGN_OR_RETURN(link->collective_,
                   ConnectGloo({.rank = group.rank,
                                .size = group.size,
                                .group = group.name,
                                .interface = "",
                                .connect_timeout = group.timeout,
                                .timeout = group.timeout,
                                .abort = group.abort},
                               &link->store_));
  return link;
}

absl::Status RankLink::CheckSame(uint64_t step, const WeightStore& weights) {
  ASSIGN_OR_RETURN(const std::string mine, DigestOf(step, weights));
  std::string all(mine.size() * static_cast<size_t>(size()), '\0');
  RETURN_IF_ERROR(collective_->AllGather(
      {reinterpret_cast<const std::byte*>(mine.data()), mine.size()},
      {reinterpret_cast<std::byte*>(all.data()), all.size()}));
  for (int rank = 1; rank < size(); ++rank) {
    if (all.compare(mine.size() * static_cast<size_t>(rank), mine.size(), all,
                    0, mine.size()) == 0) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "rank ", rank, " of ", size(), " begins with other weights than rank ",
        "0; run the same job, data, checkpoint and build on all devices"));
  }
  return absl::OkStatus();
}

absl::Status RankLink::ShareState(const WeightStore& weights) {
  const std::vector<const WeightEntry*> state = StateOf(weights);
  size_t total = 0;
  for (const WeightEntry* entry : state) total += entry->bytes();
  if (total == 0) return absl::OkStatus();
  std::vector<std::byte> bytes(total);
  Transfer& transfer = weights.transfer();
  std::byte* next = bytes.data();
  for (const WeightEntry* entry : state) {
    if (rank() == 0) {
      RETURN_IF_ERROR(transfer.CopyFromDevice({next, entry->bytes()},
                                              weights.address_of(*entry)));
    }
    next += entry->bytes();
  }
  // All reads must have ended before the bytes are sent.
  RETURN_IF_ERROR(transfer.Synchronize());
  RETURN_IF_ERROR(collective_->Broadcast(absl::MakeSpan(bytes), 0));
  next = bytes.data();
  for (const WeightEntry* entry : state) {
    if (rank() != 0) {
      RETURN_IF_ERROR(transfer.CopyToDevice(weights.address_of(*entry),
                                            {next, entry->bytes()}));
    }
    next += entry->bytes();
  }
  return transfer.Synchronize();
}

absl::StatusOr<EvaluationSums> RankLink::Sum(const EvaluationSums& mine) {
  std::vector<EvaluationSums> all(static_cast<size_t>(size()));
  RETURN_IF_ERROR(collective_->AllGather(
      {reinterpret_cast<const std::byte*>(&mine), sizeof(mine)},
      {reinterpret_cast<std::byte*>(all.data()), all.size() * sizeof(mine)}));
  // Every rank adds in the same order, so all get the same bits and decide
  // alike.
  EvaluationSums sum;
  for (const EvaluationSums& one : all) {
    sum.loss += one.loss;
    sum.weight += one.weight;
    sum.correct += one.correct;
    sum.top_k += one.top_k;
    sum.counted += one.counted;
    for (size_t i = 0; i < sum.others.size(); ++i) {
      sum.others[i].loss += one.others[i].loss;
      sum.others[i].weight += one.others[i].weight;
    }
  }
  return sum;
}

absl::StatusOr<std::vector<std::byte>> RankLink::Gather(
    absl::Span<const std::byte> mine) {
  std::vector<std::byte> all(mine.size() * static_cast<size_t>(size()));
  RETURN_IF_ERROR(collective_->AllGather(mine, absl::MakeSpan(all)));
  return all;
}

}  // namespace gpupool::engine
