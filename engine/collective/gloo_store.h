// A rendezvous store as Gloo wants it: waits for keys until a deadline, and
// throws, as its callers inside Gloo expect. For gloo_mesh.cc only.
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
  // Keys get `prefix` in front. `store` and `cancelled` must outlive this.
  GlooStore(RendezvousStore* store, std::string prefix, absl::Time deadline,
            const std::atomic<bool>& cancelled)
      : store_(store),
        prefix_(std::move(prefix)),
        deadline_(deadline),
        cancelled_(cancelled) {}

  void set(const std::string& key, const std::vector<char>& data) override;
  std::vector<char> get(const std::string& key) override;
  void wait(const std::vector<std::string>& keys) override;
  // The deadline holds, whatever Gloo's time-out.
  void wait(const std::vector<std::string>& keys,
            const std::chrono::milliseconds& timeout) override;

 private:
  RendezvousStore* store_;
  std::string prefix_;
  absl::Time deadline_;
  const std::atomic<bool>& cancelled_;
};

// The text of a key once it is there. DEADLINE_EXCEEDED after `deadline`,
// CANCELLED soon after `cancelled` is set; other errors of the store at once.
absl::StatusOr<std::string> AwaitKey(RendezvousStore& store,
                                     absl::string_view key, absl::Time deadline,
                                     const std::atomic<bool>& cancelled);

}  // namespace gpupool::engine
