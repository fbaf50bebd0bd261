// The bytes of every holder by use, with the peaks and limits of holders.
//
// Thread-safety: none; it is under the allocator's lock. Ownership: the ledger
// owns the accounts. Their addresses are stable until their holder is
// forgotten.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/memory/statistics.h"

namespace gpupool::engine {

struct OwnerHolder {
  std::string name;
  uint64_t bytes = 0;
  uint64_t peak_bytes = 0;
  uint64_t limit_bytes = 0;  // 0: none
};

// The bytes that a holder has for one use.
struct OwnerAccount {
  OwnerHolder* holder = nullptr;
  Owner owner;
  uint64_t bytes = 0;
};

class OwnerLedger {
 public:
  // Returns the account of the owner and opens it at the first call.
  OwnerAccount* Account(const Owner& owner) {
    const bool again = last_ != nullptr && last_->owner == owner;
    return again ? last_ : FindOrOpen(owner);
  }
  // Returns null when the holder is unknown.
  const OwnerHolder* Find(const std::string& holder) const;
  // Returns whether the holder may have `bytes` more.
  static bool Allows(const OwnerHolder& holder, uint64_t bytes) {
    return holder.limit_bytes == 0 ||
           (bytes <= holder.limit_bytes &&
            holder.bytes <= holder.limit_bytes - bytes);
  }
  static void Add(OwnerAccount* account, uint64_t bytes) {
    account->bytes += bytes;
    OwnerHolder& holder = *account->holder;
    holder.bytes += bytes;
    if (holder.bytes > holder.peak_bytes) holder.peak_bytes = holder.bytes;
  }
  static void Subtract(OwnerAccount* account, uint64_t bytes) {
    account->bytes -= bytes;
    account->holder->bytes -= bytes;
  }

  // Sets a holder's limit. Returns false when it already holds more.
  bool SetLimit(const std::string& holder, uint64_t limit_bytes);
  // Forgets the holder and its accounts. It must hold nothing.
  void Forget(const std::string& holder);
  void ResetPeaks();
  // Returns the accounts that hold bytes, largest first, then by label.
  std::vector<OwnerUsage> Usage() const;
  // Returns the holders that hold bytes, largest first, then by name.
  std::vector<OwnerHolder> Holders() const;

 private:
  OwnerAccount* FindOrOpen(const Owner& owner);
  OwnerHolder& Holder(const std::string& name);

  std::map<std::string, std::unique_ptr<OwnerHolder>> holders_;
  absl::flat_hash_map<Owner, std::unique_ptr<OwnerAccount>> accounts_;
  // a cache: the same owner often asks repeatedly
  OwnerAccount* last_ = nullptr;
};

}  // namespace gpupool::engine
