// Private to server/http: one rpc of any type, in wire format, with one request
// and any number of responses.
//
// Thread-safety: one thread; Cancel may be called from any. Ownership: gRPC
// uses the call until it has ended, so the destructor cancels it and waits.
//
// Invariant: a hold keeps gRPC from ending the call while Next may still start
// a read. It is removed when a read fails, after which none is started.
#pragma once

#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace gpupool::server {

class GenericCall
    : private grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  enum class Event { kMessage, kEnd, kNothing };

  // Ends by `deadline`, which may be infinite.
  GenericCall(const std::shared_ptr<grpc::Channel>& channel,
              absl::Time deadline);
  ~GenericCall() override;

  // Adds metadata, which must be printable ASCII. Call it before Start.
  void AddMetadata(const std::string& name, const std::string& value) {
    context_.AddMetadata(name, value);
  }

  // Starts the rpc named `path`, "/package.Service/Method". Call it once.
  void Start(const std::string& path, std::string request);

  // Starts an rpc with one response. Next then returns kEnd as its first event,
  // and message() is the response: the caller wakes up once.
  void StartUnary(const std::string& path, std::string request);

  // Blocks until a message has come, the rpc has ended, or it is `until`. The
  // next message is not taken from the server before the next call of Next.
  Event Next(absl::Time until);

  // Returns the message of the last kMessage, or the response of StartUnary.
  const std::string& message() const { return message_; }
  // Returns the rpc's status. Call it after kEnd.
  absl::Status status() const;

  void Cancel() { context_.TryCancel(); }

 private:
  enum class State {
    kNotStarted,
    kReading,  // a read is outstanding
    kArrived,  // response_ has a message that Next has not returned
    kTaken,    // Next has returned it
    kDrained,  // no more messages; the status is outstanding
    kEnded,
  };

  void OnReadDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;
  void StartNextRead();
  void TakeMessage();
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return state_ == State::kArrived || state_ == State::kEnded;
  }

  grpc::GenericStub stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer request_;
  grpc::ByteBuffer response_;  // written by gRPC while kReading
  std::string message_;
  bool unary_ = false;  // never changes while the rpc runs

  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kNotStarted;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
