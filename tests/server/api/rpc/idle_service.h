// A server with one gRPC service for tests of idle streams, and a clock that
// the test drives.
#pragma once

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/api/rpc/stream_registry.h"
#include "tests/wait_until.h"

namespace gpupool::server {

// Counts what a stream did. Outlives the stream.
struct StreamFacts {
  std::atomic<int> steps = 0;
  std::atomic<bool> completed = false;
  std::atomic<bool> gone = false;
};

class IdleService : public ::testing::Test {
 protected:
  // Serves over TCP, since what is sent must be able to wait for the client.
  void Serve(grpc::Service* service) {
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    builder.RegisterService(service);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", port),
                                   grpc::InsecureChannelCredentials());
  }

  void TearDown() override {
    // The server ends before its service, which is a part of the test.
    if (server_ != nullptr) server_->Shutdown();
    server_.reset();
  }

  // Returns true when the stream has ended. Lets an hour pass at each look.
  bool EndsWhileTimePasses() {
    return WaitUntil([this] {
      hours_ += 1;
      registry_.EndIdle();
      return facts_.gone.load();
    });
  }

  std::atomic<int> hours_ = 0;
  StreamFacts facts_;
  StreamRegistry registry_{
      2, absl::Hours(1),
      [this] { return absl::UnixEpoch() + absl::Hours(hours_.load()); }};
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

}  // namespace gpupool::server
