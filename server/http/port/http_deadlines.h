// Limits of the time that clients of the HTTP port may take.
#pragma once

#include "absl/time/time.h"

namespace gpupool::server {

struct HttpDeadlines {
  absl::Duration handshake = absl::Seconds(10);    // of TLS
  absl::Duration idle = absl::Seconds(75);         // before a request
  absl::Duration headers = absl::Seconds(10);      // from the first byte
  absl::Duration request = absl::Seconds(60);      // from the first byte
  absl::Duration body_pause = absl::Seconds(10);   // between bytes of a body
  absl::Duration write_pause = absl::Seconds(30);  // to take some of an answer
  absl::Duration linger = absl::Seconds(5);        // to close its side
  // To take the rest of an answer when the port stops.
  absl::Duration finish = absl::Seconds(5);
};

}  // namespace gpupool::server
