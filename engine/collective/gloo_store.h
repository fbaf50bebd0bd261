// An adapter from RendezvousStore to Gloo's store: it waits for keys until a
// deadline, and throws, as Gloo expects. For gloo_mesh.cc only.
#pragma once

#include <gloo/rendezvous/store.h>

#include <atomic>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/collective/rendezvous.h"

namespace gpupool::engine {

class GlooStore : public ::gloo::rendezvous::Store {
 public:
  // Adds `prefix` to every key. `store` and `cancelled` must outlive this.
  GlooStore(RendezvousStore* store, std::string prefix, absl::Time deadline,
            const std::atomic<bool>& cancelled)
      : store_(store),
        prefix_(std::move(prefix)),
        deadline_(deadline),
        cancelled_(cancelled) {}

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  // Ignores `timeout`; the deadline of the constructor holds.
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  RendezvousStore* store_;
  std::string prefix_;
  absl::Time deadline_;
  const std::atomic<bool>& cancelled_;
};

// Waits for a key and returns its text. DEADLINE_EXCEEDED after `deadline`,
// CANCELLED soon after `cancelled` is set; other errors of the store at once.
absl::StatusOr<std::string> AwaitKey(RendezvousStore& store,
                                     absl::string_view key, absl::Time deadline,
                                     const std::atomic<bool>& cancelled);

}  // namespace gpupool::engine
