// The tables in which a State keeps its jobs and devices: constant-time look-up
// by id, iteration by rising id.
//
// Thread-safety: values; as any container.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace gpupool::scheduler {

// Table of many ids that come and go. Entries keep their addresses.
template <typename IdType, typename Thing>
class SparseTable {
 public:
  using const_iterator = typename std::map<IdType, Thing>::const_iterator;

  SparseTable() = default;
  SparseTable(const SparseTable& other) : things_(other.things_) {
    for (auto& [id, thing] : things_) places_[id] = &thing;
  }
  SparseTable(SparseTable&&) noexcept = default;
  SparseTable& operator=(SparseTable&&) noexcept = default;

  const_iterator begin() const { return things_.begin(); }
  const_iterator end() const { return things_.end(); }
  size_t size() const { return things_.size(); }
  bool empty() const { return things_.empty(); }

  // Returns null when the id is unknown.
  const Thing* Find(IdType id) const {
    auto it = places_.find(id);
    return it == places_.end() ? nullptr : it->second;
  }
  Thing* Find(IdType id) {
    return const_cast<Thing*>(std::as_const(*this).Find(id));
  }
  // Returns the entry; the id must be known.
  const Thing& at(IdType id) const { return *places_.at(id); }

  // Adds the entry, or replaces the one with that id.
  Thing& Put(IdType id, Thing thing) {
    Thing& put = things_[id];
    put = std::move(thing);
    places_[id] = &put;
    return put;
  }
  void Erase(IdType id) {
    places_.erase(id);
    things_.erase(id);
  }

 private:
  std::map<IdType, Thing> things_;
  absl::flat_hash_map<IdType, Thing*> places_;
};

// Table of ids that count from 0. Nothing is ever removed. Add() moves the
// entries.
template <typename IdType, typename Thing>
class DenseTable {
 public:
  using Entry = std::pair<const IdType, Thing>;
  using const_iterator = typename std::vector<Entry>::const_iterator;

  const_iterator begin() const { return entries_.begin(); }
  const_iterator end() const { return entries_.end(); }
  size_t size() const { return entries_.size(); }
  bool empty() const { return entries_.empty(); }

  const Thing* Find(IdType id) const {
    return id.value() < entries_.size() ? &entries_[id.value()].second
                                        : nullptr;
  }
  Thing* Find(IdType id) {
    return const_cast<Thing*>(std::as_const(*this).Find(id));
  }
  // Returns the entry; the id must be known.
  const Thing& at(IdType id) const { return entries_[id.value()].second; }

  // Adds an entry with the next id.
  Thing& Add() {
    return entries_.emplace_back(IdType(entries_.size()), Thing()).second;
  }

 private:
  std::vector<Entry> entries_;
};

}  // namespace gpupool::scheduler
