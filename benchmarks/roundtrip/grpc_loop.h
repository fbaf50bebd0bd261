// Requests over gRPC, so many at a time.
//
// Thread-safety: one thread.
#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/roundtrip/figures.h"
#include "inference/grpc_service.grpc.pb.h"

namespace gpupool::benchmarks {

using Stub = inference::GRPCInferenceService::Stub;

// Returns a stub with a connection of its own.
std::unique_ptr<Stub> Connect(const std::string& address);

// Keeps `concurrency` requests in flight for some time.
class GrpcLoop {
 public:
  // Both must outlive the loop.
  GrpcLoop(Stub* stub, const inference::ModelInferRequest& request,
           int concurrency)
      : stub_(stub), request_(request), callers_(concurrency) {}

  Figures Run(std::chrono::duration<double> seconds);

 private:
  using Clock = std::chrono::steady_clock;
  struct Caller {
    std::unique_ptr<grpc::ClientContext> context;
    inference::ModelInferResponse response;
    Clock::time_point sent;
    std::vector<double> latencies_us;
  };

  void Send(Caller& caller);
  void Receive(Caller& caller, const grpc::Status& status);

  Stub* const stub_;
  const inference::ModelInferRequest& request_;
  std::vector<Caller> callers_;
  std::atomic<bool> stop_{false};
  std::atomic<int> active_{0};
};

// Streams of ModelStreamInfer that are open and say nothing, until destroyed.
class IdleStreams {
 public:
  // Opens `streams` on connections of their own, at most 100 on each.
  IdleStreams(const std::string& address, int streams);
  ~IdleStreams();

 private:
  struct Stream;
  std::vector<std::unique_ptr<Stub>> stubs_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace gpupool::benchmarks
