// A collector that takes OTLP over HTTP or HTTPS.
//
// Thread-safety: one thread at a time sends; Stop may be called from any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/trace/collector_url.h"
#include "server/trace/host_lookup.h"

namespace httplib {
class ClientImpl;
}  // namespace httplib

namespace gpupool::server {

// The outcome of one request.
struct CollectorAnswer {
  bool taken = false;
  bool may_retry = false;    // whether the same request may succeed later
  uint64_t rejected = 0;     // spans of a taken request that were not kept
  std::string problem = {};  // empty: none
  // Time for which the collector wants to be left alone.
  std::optional<absl::Duration> retry_after = std::nullopt;
};

struct CollectorOptions {
  absl::Duration limit = absl::Seconds(10);  // of the time of one Send
  LookUpHost look_up = LookUpBySystem;
};

class Collector {
 public:
  explicit Collector(CollectorUrl url, CollectorOptions options = {});
  ~Collector();
  Collector(const Collector&) = delete;
  Collector& operator=(const Collector&) = delete;

  // Sends an ExportTraceRequest in wire format and blocks until it is answered,
  // at most for the limit. The certificate of an https collector must be
  // signed by an authority that the system trusts.
  CollectorAnswer Send(const std::string& body);

  // Ends a Send at once, whatever it waits for, and all later ones.
  void Stop();

 private:
  // Returns the addresses of the host. The latest are used for a while.
  std::vector<std::string> Addresses(absl::Time end);
  // Sends the request to the first address that can be reached.
  CollectorAnswer SendTo(const std::vector<std::string>& addresses,
                         const std::string& body, absl::Time end);
  // Waits until the Send is over. From `end` or Stop on, shuts its connection
  // down.
  void Watch(absl::Time end);
  void KeepSocket(int socket);
  bool MustEnd() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || !sending_;
  }
  bool HasEnded() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !sending_;
  }

  const CollectorUrl url_;
  const CollectorOptions options_;
  HostLookup lookup_;
  const std::unique_ptr<httplib::ClientImpl> http_;
  std::vector<std::string> addresses_;                 // the sending thread's
  absl::Time addresses_until_ = absl::InfinitePast();  // the same
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  bool sending_ ABSL_GUARDED_BY(mutex_) = false;
  // A second descriptor of the connection; -1: none. The library closes its own
  // at any time, and holds a mutex while it connects.
  int socket_ ABSL_GUARDED_BY(mutex_) = -1;
};

// Reads the header Retry-After: whole seconds, at most 60. Nothing for another
// form.
std::optional<absl::Duration> ReadRetryAfter(const std::string& text);

}  // namespace gpupool::server
