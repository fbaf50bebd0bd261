// Requests under which the planner has ended again and again. Each time costs
// everybody who waits for a plan the start of a new planner, so they are
// refused for a while.
//
// Thread-safety: one thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace gpupool::worker::v1 {
class ToWorker;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

// Ends of a planner after which a request is refused.
inline constexpr uint32_t kKillsUntilRefused = 2;
// Time after the latest end for which it is refused.
inline constexpr std::chrono::minutes kRefusedFor{10};
inline constexpr size_t kMaxKillerRequests = 256;

// Returns the digest of the message, whatever its request id is.
std::string DigestOfRequest(worker::v1::ToWorker message);

class KillerRequests {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  // Notes that a planner ended by the request with this digest. Forgets what is
  // older than kRefusedFor, and the oldest one beyond kMaxKillerRequests.
  void Add(const std::string& digest, TimePoint now);

  // Returns INVALID_ARGUMENT while the request is refused.
  absl::Status Check(const std::string& digest, TimePoint now) const;

 private:
  struct Kills {
    uint32_t count = 0;
    TimePoint latest;
  };
  std::map<std::string, Kills> kills_;  // by digest
};

}  // namespace gpupool::server
