// Requests over HTTP with binary tensor data, so many at a time, each from a
// thread and a connection of its own.
#pragma once

#include <chrono>
#include <string>

#include "benchmarks/roundtrip/figures.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::benchmarks {

// Keeps `concurrency` of these requests in flight for some time.
Figures RunHttpLoop(const std::string& address,
                    const inference::ModelInferRequest& request,
                    int concurrency, std::chrono::duration<double> seconds);

}  // namespace gpupool::benchmarks
