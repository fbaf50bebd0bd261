// The daemon: makes its parts in one visible order, connects them, and takes
// them down in reverse.
//
//   state folder, store, blob store, metrics    what is kept
//   control, pool, serving                      what works
//   gRPC, HTTP, metrics endpoint                what is reached from outside
//
// Thread-safety: RequestStop from any thread; everything else belongs to the
// thread that called Start.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/config.h"

namespace gpupool::server {

struct BuildInfo {
  std::string version;
  std::string commit;  // empty when not known
};

struct Ports {
  uint16_t grpc = 0;
  uint16_t http = 0;
  uint16_t metrics = 0;
};

class Server {
 public:
  // Starts everything, waits for a limited time for the workers to answer, then
  // writes the port file. The error tells which part failed and what to do.
  // `give_up`, which must not be empty, is polled meanwhile. When it is true
  // while the GPUs are listed, returns CANCELLED. When it is true while the
  // workers start, ends the wait and returns the server.
  static absl::StatusOr<std::unique_ptr<Server>> Start(
      const Config& config, const BuildInfo& build,
      const std::function<bool()>& give_up);
  // Stops the parts. Without Drain the workers live on, as after a crash.
  ~Server();

  const Ports& ports() const;

  // Makes WaitForStop return. Idempotent.
  void RequestStop();
  void WaitForStop();

  // Takes no more jobs, lets running steps finish, waits for the checkpoints,
  // and ends the workers. Jobs are then back in the queue on disk. Blocks for
  // at most about config.drain_grace.
  void Drain();

 private:
  class Impl;
  explicit Server(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
