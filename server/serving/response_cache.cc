#include "server/serving/response_cache.h"

#include <algorithm>
#include <iterator>

#include "engine/base/sha256.h"

namespace gpupool::server {
namespace {

// Hashes fields with their lengths in front, so that no two lists of fields are
// the same bytes.
class FieldHash {
 public:
  void Add(uint64_t number) { hash_.Update(&number, sizeof(number)); }
  void Add(const void* data, size_t bytes) {
    Add(uint64_t{bytes});
    hash_.Update(data, bytes);
  }
  void Add(absl::string_view text) { Add(text.data(), text.size()); }
  void Add(const TensorView& tensor) {
    Add(tensor.name);
    Add(tensor.data_type);
    Add(tensor.shape.data(), tensor.shape.size() * sizeof(int64_t));
    Add(tensor.bytes.data(), tensor.bytes.size());
  }
  std::string Finish() { return hash_.FinishHex(); }

 private:
  engine::Sha256 hash_;
};

uint64_t EntryBytes(const CacheKey& key, const CachedAnswer& answer) {
  uint64_t bytes = ResponseCache::kOverheadBytes + key.digest.size();
  for (const CachedTensor& output : answer.outputs) {
    bytes += sizeof(CachedTensor) + output.name.size() +
             output.data_type.size() + output.shape.size() * sizeof(int64_t) +
             output.bytes.size();
  }
  return bytes;
}

}  // namespace

CacheKey KeyOf(const CacheRequest& request) {
  FieldHash hash;
  hash.Add(request.version_id);
  hash.Add(request.model);
  hash.Add(request.version);
  hash.Add(uint64_t{request.outputs.size()});
  for (const AskedOutput& output : request.outputs) {
    hash.Add(static_cast<uint64_t>(output.index));
    hash.Add(uint64_t{output.classes});
  }
  std::vector<const TensorView*> inputs;
  inputs.reserve(request.inputs.size());
  for (const TensorView& input : request.inputs) inputs.push_back(&input);
  std::sort(inputs.begin(), inputs.end(),
            [](const TensorView* a, const TensorView* b) {
              return a->name < b->name;
            });
  hash.Add(uint64_t{inputs.size()});
  for (const TensorView* input : inputs) hash.Add(*input);
  return {.version_id = request.version_id, .digest = hash.Finish()};
}

std::shared_ptr<const CachedAnswer> ResponseCache::Find(const CacheKey& key) {
  absl::MutexLock lock(&mutex_);
  const auto version = places_.find(key.version_id);
  if (version == places_.end()) return nullptr;
  const auto place = version->second.find(key.digest);
  if (place == version->second.end()) return nullptr;
  recent_.splice(recent_.begin(), recent_, place->second);
  return place->second->answer;
}

bool ResponseCache::Takes(uint64_t bytes) const {
  return bytes <= options_.limit_bytes / kShares;
}

void ResponseCache::Insert(const CacheKey& key, CachedAnswer answer) {
  const uint64_t bytes = EntryBytes(key, answer);
  if (!Takes(bytes)) return;
  // Both lists end after the lock, so that nothing is destroyed with it.
  Entries added;
  Entries dropped;
  added.push_back(
      {.key = key,
       .bytes = bytes,
       .answer = std::make_shared<const CachedAnswer>(std::move(answer))});
  absl::MutexLock lock(&mutex_);
  const auto [place, is_new] = places_[key.version_id].try_emplace(
      added.front().key.digest, added.begin());
  if (!is_new) {
    // An equal request was computed at the same time.
    recent_.splice(recent_.begin(), recent_, place->second);
    return;
  }
  recent_.splice(recent_.begin(), added);
  bytes_ += bytes;
  while (bytes_ > options_.limit_bytes) Evict(&dropped);
  Report(dropped.size());
}

void ResponseCache::Evict(Entries* dropped) {
  const auto last = std::prev(recent_.end());
  const auto version = places_.find(last->key.version_id);
  version->second.erase(last->key.digest);
  if (version->second.empty()) places_.erase(version);
  bytes_ -= last->bytes;
  dropped->splice(dropped->begin(), recent_, last);
}

void ResponseCache::DropVersion(uint64_t version_id) {
  Entries dropped;  // ends after the lock
  absl::MutexLock lock(&mutex_);
  const auto version = places_.find(version_id);
  if (version == places_.end()) return;
  for (const auto& [digest, entry] : version->second) {
    bytes_ -= entry->bytes;
    dropped.splice(dropped.begin(), recent_, entry);
  }
  places_.erase(version);
  Report(0);
}

CacheUsage ResponseCache::usage() const {
  absl::MutexLock lock(&mutex_);
  return {.bytes = bytes_, .answers = recent_.size(), .evicted = 0};
}

void ResponseCache::Report(uint64_t evicted) {
  if (!options_.changed) return;
  options_.changed(
      {.bytes = bytes_, .answers = recent_.size(), .evicted = evicted});
}

}  // namespace gpupool::server
