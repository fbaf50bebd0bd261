// Connections between all ranks of a group, over Gloo's TCP transport. Only
// Gloo's transport is used, because its algorithms do not say which rank was
// lost. No exception leaves this class.
//
// One thread makes, uses and destroys a mesh. It must have SIGPIPE blocked,
// since Gloo writes to sockets whose other end may be gone. Any thread may call
// Cancel.
//
// Gloo trusts every peer that connects: use it on the loopback or on a network
// that only the cluster can reach.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/collective/rendezvous.h"

namespace gloo {
class Context;
namespace transport {
class UnboundBuffer;
}  // namespace transport
}  // namespace gloo

namespace gpupool::engine {

struct MeshPlace {
  int rank = 0;
  int size = 1;
  // The network interface to bind to, such as "eth0"; empty: the loopback.
  std::string interface;
  // A prefix of all keys in the rendezvous.
  std::string key_prefix;
};

// Bytes to or from another rank. Empty parts are skipped on both sides.
struct MeshPart {
  int peer = 0;
  std::byte* data = nullptr;
  size_t bytes = 0;
};

class GlooMesh {
 public:
  // Connects and returns when all ranks have connected. All of them must be
  // about to call this. UNAVAILABLE when
  // - `deadline` has passed,
  // - a rank is gone (at most half a minute later), or
  // - `cancelled` is set (soon after).
  static absl::StatusOr<std::unique_ptr<GlooMesh>> Connect(
      const MeshPlace& place, RendezvousStore& store, absl::Time deadline,
      const std::atomic<bool>& cancelled);
  ~GlooMesh();
  GlooMesh(const GlooMesh&) = delete;
  GlooMesh& operator=(const GlooMesh&) = delete;

  // Sends and receives all parts at the same time, and returns when all have
  // ended. Both ends must give the same `slot` and sizes. A slot must not be
  // used again while another rank may still be in it.
  //   UNAVAILABLE  the connection to lost_peer() broke, or that rank did not
  //                take part before `deadline`. The mesh is then unusable.
  //   CANCELLED    Cancel was called
  absl::Status Exchange(absl::Span<const MeshPart> out,
                        absl::Span<const MeshPart> in, uint64_t slot,
                        absl::Time deadline);
  // Returns the lost rank after Exchange failed with UNAVAILABLE, else -1.
  int lost_peer() const { return lost_peer_; }

  // Ends the running Exchange and all later ones.
  void Cancel();

 private:
  enum class Direction { kReceive, kSend };

  GlooMesh() = default;
  std::unique_ptr<::gloo::transport::UnboundBuffer> BufferOf(
      const MeshPart& part);
  absl::Status Await(::gloo::transport::UnboundBuffer& buffer,
                     Direction direction, absl::Time deadline);

  std::shared_ptr<::gloo::Context> context_;
  int lost_peer_ = -1;
  absl::Mutex mutex_;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  // The buffer that the mesh's thread waits for; null when it does not wait.
  ::gloo::transport::UnboundBuffer* awaited_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace gpupool::engine
