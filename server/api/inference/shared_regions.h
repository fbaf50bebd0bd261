// Shared memory of clients (server/serving/regions), and who asks for it.
//
// Thread-safety: any thread. Ownership: the gate must outlive the regions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "server/serving/regions/region_book.h"

namespace grpc {
class CallbackServerContext;
}  // namespace grpc

namespace gpupool::server {

class AccessGate;

class SharedRegions {
 public:
  // `gate` knows the tenants; null: there are none. `folder` is where the
  // system keeps shared memory.
  explicit SharedRegions(AccessGate* gate, std::string folder = "/dev/shm")
      : gate_(gate), book_({}, std::move(folder)) {}

  RegionBook& book() { return book_; }
  const RegionBook& book() const { return book_; }

  // Returns who calls. The user is the one whom the ports have noted
  // (server/api/rpc/call_peer.h). Over the socket it is the server's own, since
  // the only other user who can open it is root. Unauthenticated when the token
  // has just ended.
  absl::StatusOr<RegionCaller> CallerOf(
      const grpc::CallbackServerContext& context) const;

 private:
  AccessGate* const gate_;
  RegionBook book_;
};

}  // namespace gpupool::server
