// Looks up the addresses of a host. A lookup of the system cannot be ended, so
// it runs on a thread of its own, which is left behind when nobody waits for it
// any more.
//
// Thread-safety: one thread finds; Stop may be called from any.
// Invariant: at most one lookup of an object runs at a time.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace gpupool::server {

// Returns the addresses of a host as numbers; none when it has none. May
// outlive the object that it was given to.
using LookUpHost = std::function<std::vector<std::string>(const std::string&)>;

// Asks the system.
std::vector<std::string> LookUpBySystem(const std::string& host);

class HostLookup {
 public:
  HostLookup(std::string host, LookUpHost look_up);
  ~HostLookup();

  // Returns the addresses of the host, which are `host` itself when it is an
  // address. None when it has none, at `until`, or after Stop. A lookup that
  // still runs is waited for by the next call.
  std::vector<std::string> Find(absl::Time until);

  // Ends a Find at once, and all later ones.
  void Stop();

 private:
  struct Shared;

  const std::string host_;
  const LookUpHost look_up_;
  const std::shared_ptr<Shared> shared_;
};

}  // namespace gpupool::server
