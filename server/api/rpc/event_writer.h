// Private to server/api: the common part of all server-streaming rpcs. A
// derived class produces messages. This one writes them one at a time, on
// gRPC's threads only, and ends the stream once.
//
// Thread-safety: Wake, Stop and EndIdle may be called from any thread, any
// number of times. Next is called by one thread at a time, without a lock.
// Ownership: a stream owns itself from Begin until gRPC is done with it.
//
// Invariant: StartWrite and Finish are called without a lock, by the caller
// that set busy_, since gRPC may call back before they return.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <memory>
#include <utility>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/api/rpc/grpc_status.h"
#include "server/api/rpc/stream_place.h"
#include "server/api/rpc/stream_registry.h"
#include "server/api/rpc/timer.h"

namespace gpupool::server {

// A stream that ends at once with an error.
template <typename Response>
class Refuse : public grpc::ServerWriteReactor<Response> {
 public:
  explicit Refuse(const absl::Status& status) { this->Finish(ToGrpc(status)); }
  void OnDone() override { delete this; }
};

template <typename Message>
class EventWriter : public grpc::ServerWriteReactor<Message>,
                    public OpenStream,
                    public std::enable_shared_from_this<EventWriter<Message>> {
 public:
  // Nothing to say now. The stream must call Wake when there is.
  struct Idle {};
  // A message to write, a final status, or nothing for now.
  using Step = std::variant<Idle, Message, absl::Status>;

  // Starts the stream. `stream` ends itself with an error when there is no
  // place.
  static EventWriter* Begin(std::shared_ptr<EventWriter> stream,
                            StreamPlace place) {
    EventWriter* raw = stream.get();
    raw->place_ = std::move(place);
    raw->self_ = stream;
    const absl::Status added =
        raw->place_.registry->Add(stream, raw->place_.holder);
    if (added.ok()) raw->OnBegin();
    if (!added.ok()) raw->Stop(added);
    raw->Wake();
    return raw;
  }

  // Calls Next soon, on a gRPC thread.
  void Wake() {
    {
      absl::MutexLock lock(&mutex_);
      wanted_ = true;
      if (finished_ || busy_) return;
      busy_ = true;
    }
    RunAfter(absl::ZeroDuration(),
             [stream = this->shared_from_this()] { stream->Run(); });
  }

  void Stop(const absl::Status& status) override {
    {
      absl::MutexLock lock(&mutex_);
      if (stop_.ok()) stop_ = status;
    }
    Wake();
  }

  // Lets the write fail, whose end then ends the stream. A status that waits
  // behind a message would reach no client that takes none.
  void EndIdle(const absl::Status& status) override {
    Stop(status);
    CancelCall(place_, status);
  }

  void OnCancel() override {
    Stop(absl::CancelledError("the client went away"));
  }

  void OnWriteDone(bool ok) override {
    this->EndWaitForClient();
    if (!ok) {
      absl::MutexLock lock(&mutex_);
      if (stop_.ok()) stop_ = absl::CancelledError("the client went away");
    }
    Run();
  }

  void OnDone() override {
    OnEnd();
    self_.reset();
  }

 protected:
  virtual Step Next() = 0;
  // Called once, before the first Next.
  virtual void OnBegin() {}
  // Called once, after the last Next.
  virtual void OnEnd() {}

 private:
  // Runs the stream until it idles. The caller must have set busy_.
  void Run() {
    while (true) {
      absl::Status stop;
      {
        absl::MutexLock lock(&mutex_);
        wanted_ = false;
        stop = stop_;
      }
      Step step = stop.ok() ? Next() : Step(stop);
      if (auto* message = std::get_if<Message>(&step)) {
        message_ = std::move(*message);
        this->BeginWaitForClient();
        this->StartWrite(&message_);
        return;
      }
      if (auto* status = std::get_if<absl::Status>(&step)) {
        {
          absl::MutexLock lock(&mutex_);
          finished_ = true;
        }
        // The client that sees the end finds a place.
        place_.registry->Remove(this);
        this->Finish(ToGrpc(*status));
        return;
      }
      absl::MutexLock lock(&mutex_);
      if (wanted_) continue;
      busy_ = false;
      return;
    }
  }

  StreamPlace place_;
  std::shared_ptr<EventWriter> self_;
  Message message_;  // message that is being written
  absl::Mutex mutex_;
  bool busy_ ABSL_GUARDED_BY(mutex_) = false;  // in Run or writing
  bool wanted_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status stop_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
