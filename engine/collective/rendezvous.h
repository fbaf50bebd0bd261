// A small store of texts by key, in which the ranks of a group find each other.
// All ranks can reach it. A key is written once. Thread-safe.
#pragma once

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::engine {

inline constexpr size_t kMaxRendezvousKey = 128;
inline constexpr size_t kMaxRendezvousBytes = size_t{1} << 20;

class RendezvousStore {
 public:
  virtual ~RendezvousStore() = default;

  // Stores a text. ALREADY_EXISTS when the key has a text, which stays.
  // INVALID_ARGUMENT for
  // - a key that is not 1 to kMaxRendezvousKey of [A-Za-z0-9._-],
  // - a key that begins with a dot,
  // - a text of more than kMaxRendezvousBytes.
  absl::Status Set(absl::string_view key, absl::string_view text);
  // Returns the text of the key. NOT_FOUND when it is not set.
  absl::StatusOr<std::string> Get(absl::string_view key);

 protected:
  virtual absl::Status DoSet(const std::string& key,
                             absl::string_view text) = 0;
  virtual absl::StatusOr<std::string> DoGet(const std::string& key) = 0;
};

// A store for ranks that are threads of one process.
class MemoryRendezvous : public RendezvousStore {
 protected:
  absl::Status DoSet(const std::string& key, absl::string_view text) override;
  absl::StatusOr<std::string> DoGet(const std::string& key) override;

 private:
  absl::Mutex mutex_;
  absl::flat_hash_map<std::string, std::string> texts_ ABSL_GUARDED_BY(mutex_);
};

// A store for processes of one machine: one file for each key, in an existing
// folder that only they can write to. A key appears with its whole text or not
// at all. The maker of the folder removes it.
class FolderRendezvous : public RendezvousStore {
 public:
  explicit FolderRendezvous(std::string folder) : folder_(std::move(folder)) {}

 protected:
  absl::Status DoSet(const std::string& key, absl::string_view text) override;
  absl::StatusOr<std::string> DoGet(const std::string& key) override;

 private:
  std::string folder_;
};

}  // namespace gpupool::engine
