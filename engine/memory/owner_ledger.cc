#include "engine/memory/owner_ledger.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace gpupool::engine {

OwnerHolder& OwnerLedger::Holder(const std::string& name) {
  // Blocks and accounts point to holders, so the addresses must stay when the
  // map grows.
  std::unique_ptr<OwnerHolder>& holder = holders_[name];
  if (holder == nullptr) {
    holder = std::make_unique<OwnerHolder>();
    holder->name = name;
  }
  return *holder;
}

OwnerAccount* OwnerLedger::FindOrOpen(const Owner& owner) {
  std::unique_ptr<OwnerAccount>& account = accounts_[owner];
  if (account == nullptr) {
    account = std::make_unique<OwnerAccount>();
    account->holder = &Holder(owner.holder);
    account->owner = owner;
  }
  // One owner often allocates many blocks in a row. The last account spares the
  // next look-up.
  last_ = account.get();
  return last_;
}

const OwnerHolder* OwnerLedger::Find(const std::string& holder) const {
  const auto found = holders_.find(holder);
  return found == holders_.end() ? nullptr : found->second.get();
}

bool OwnerLedger::SetLimit(const std::string& holder, uint64_t limit_bytes) {
  OwnerHolder& entry = Holder(holder);
  // 0 means that there is no limit.
  if (limit_bytes != 0 && entry.bytes > limit_bytes) return false;
  entry.limit_bytes = limit_bytes;
  return true;
}

void OwnerLedger::Forget(const std::string& holder) {
  const auto found = holders_.find(holder);
  if (found == holders_.end()) return;
  GPUPOOL_CHECK(found->second->bytes == 0);
  // The cached account may be one of those that are erased.
  last_ = nullptr;
  for (auto it = accounts_.begin(); it != accounts_.end();) {
    // Abseil's erase does not return the next iterator.
    const auto at = it++;
    if (at->second->holder == found->second.get()) accounts_.erase(at);
  }
  holders_.erase(found);
}

void OwnerLedger::ResetPeaks() {
  for (auto& [name, holder] : holders_) holder->peak_bytes = holder->bytes;
}

std::vector<OwnerUsage> OwnerLedger::Usage() const {
  std::vector<OwnerUsage> usage;
  for (const auto& [key, account] : accounts_) {
    // Accounts stay after their last block, so that the next one finds them.
    if (account->bytes == 0) continue;
    usage.push_back({account->owner.Label(), account->bytes});
  }
  std::sort(usage.begin(), usage.end(),
            [](const OwnerUsage& a, const OwnerUsage& b) {
              return a.bytes != b.bytes ? a.bytes > b.bytes : a.label < b.label;
            });
  return usage;
}

std::vector<OwnerHolder> OwnerLedger::Holders() const {
  std::vector<OwnerHolder> holders;
  for (const auto& [name, holder] : holders_) {
    if (holder->bytes > 0) holders.push_back(*holder);
  }
  std::stable_sort(holders.begin(), holders.end(),
                   [](const OwnerHolder& a, const OwnerHolder& b) {
                     return a.bytes > b.bytes;
                   });
  return holders;
}

}  // namespace gpupool::engine
