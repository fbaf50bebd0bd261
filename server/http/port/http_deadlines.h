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
  // Bytes a second at which an answer, or a piece of a stream, has to be taken,
  // besides write_pause. Slower than any line that carries tensors; faster than
  // a client that only wants to hold the memory of answers.
  double least_rate = 16 << 10;
  absl::Duration linger = absl::Seconds(5);  // to close its side
  // To take the rest of an answer when the port stops.
  absl::Duration finish = absl::Seconds(5);
};

}  // namespace gpupool::server
