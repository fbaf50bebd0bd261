// Answers of served versions in memory, for requests that come again. Bounded
// in bytes: the least recently used answers make room for new ones.
//
// Thread-safety: any thread. The mutex is held while pointers are moved;
// requests are hashed, and answers copied and destroyed, without it. Ownership:
// answers are shared, so one may be evicted while it is read.
//
// Invariants
//  1. bytes_ is the sum of the bytes of the entries, at most limit_bytes.
//  2. Each entry of recent_ has its place in places_, and nothing else has one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/serving/tensor/classification.h"
#include "server/serving/tensor/tensor_view.h"

namespace gpupool::server {

// One output of an answer, as clients get it.
struct CachedTensor {
  std::string name;
  std::string data_type;  // the protocol's name, "FP32"
  std::vector<int64_t> shape;
  std::string bytes;
};

struct CachedAnswer {
  std::vector<CachedTensor> outputs;
};

// Everything on which an answer depends. Borrowed.
struct CacheRequest {
  uint64_t version_id = 0;  // a version that is imported anew has a new one
  absl::string_view model;
  uint64_t version = 0;
  absl::Span<const AskedOutput> outputs;  // in the answer's order
  absl::Span<const TensorView> inputs;    // in any order
};

struct CacheKey {
  uint64_t version_id = 0;
  std::string digest;  // SHA-256 in hex
};

// Returns the key. It is the same for the same inputs in another order, and for
// nothing else.
CacheKey KeyOf(const CacheRequest& request);

// State after a change.
struct CacheUsage {
  uint64_t bytes = 0;
  uint64_t answers = 0;
  uint64_t evicted = 0;  // answers that made room in this change
};

struct ResponseCacheOptions {
  uint64_t limit_bytes = 0;
  // Receives each change, in order. Called with the mutex held, so it must only
  // set numbers. May be empty.
  std::function<void(const CacheUsage& usage)> changed = {};
};

class ResponseCache {
 public:
  // Largest part of the cache that one answer may take: 1/kShares.
  static constexpr uint64_t kShares = 8;
  // Bytes that count for an answer beside its names, shapes and numbers.
  static constexpr uint64_t kOverheadBytes = 512;

  explicit ResponseCache(ResponseCacheOptions options)
      : options_(std::move(options)) {}

  // Returns the answer, which then is the most recently used one, or null.
  std::shared_ptr<const CachedAnswer> Find(const CacheKey& key);

  // Returns whether an answer with that many bytes of numbers may be small
  // enough to be kept.
  bool Takes(uint64_t bytes) const;

  // Keeps the answer. No-op if it is too large, or if the key has one already.
  void Insert(const CacheKey& key, CachedAnswer answer);

  // Removes all answers of the version.
  void DropVersion(uint64_t version_id);

  CacheUsage usage() const;

 private:
  struct Entry {
    CacheKey key;
    uint64_t bytes = 0;
    std::shared_ptr<const CachedAnswer> answer;
  };
  using Entries = std::list<Entry>;
  // Places of a version's entries by their digests, which the entries own.
  using Places = absl::flat_hash_map<absl::string_view, Entries::iterator>;

  // Moves the least recently used entry to `dropped`.
  void Evict(Entries* dropped) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Report(uint64_t evicted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const ResponseCacheOptions options_;
  mutable absl::Mutex mutex_;
  Entries recent_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  absl::flat_hash_map<uint64_t, Places> places_ ABSL_GUARDED_BY(mutex_);
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace gpupool::server
