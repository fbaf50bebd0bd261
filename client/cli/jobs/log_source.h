// A job whose events a form of `gpupool logs` reads.
#pragma once

#include "client/watch.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::client {

class Client;

// The client is borrowed.
struct LogSource {
  Client* client = nullptr;
  v1::Job job;
  WatchOptions watch;
};

}  // namespace gpupool::client
