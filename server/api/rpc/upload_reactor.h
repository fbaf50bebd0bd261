// Private to server/api: the common part of all uploads. A derived class takes
// the messages of the stream. This one reads them, and ends the stream once
// when the client is done, gone, idle or told to come back later.
//
// Thread-safety: gRPC calls the On functions one at a time, except OnCancel.
// Stop and EndIdle may be called from any thread. End is called once, from any
// thread. Ownership: an upload owns itself from Begin until gRPC is done with
// it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/api/rpc/grpc_status.h"
#include "server/api/rpc/stream_place.h"
#include "server/api/rpc/stream_registry.h"

namespace gpupool::server {

template <typename Message>
class UploadReactor : public grpc::ServerReadReactor<Message>,
                      public OpenStream {
 public:
  // Starts the upload. It ends itself with an error when there is no place.
  static UploadReactor* Begin(std::shared_ptr<UploadReactor> upload,
                              StreamPlace place) {
    UploadReactor* raw = upload.get();
    raw->place_ = std::move(place);
    const absl::Status added =
        raw->place_.registry->Add(upload, raw->place_.holder);
    raw->self_ = std::move(upload);
    if (added.ok()) {
      raw->ReadNext();
    } else {
      raw->End(added);
    }
    return raw;
  }

  void OnReadDone(bool ok) override {
    this->EndWaitForClient();
    if (stopped_) {
      return End(
          absl::UnavailableError("the server is stopping; upload again later"));
    }
    // The derived class hears nothing of it, and so keeps the bytes.
    if (idle_) return End(idle_status_);
    if (!ok && cancelled_) {
      return End(absl::CancelledError("the client went away"));
    }
    if (!ok) return Complete();
    if (Take(message_)) ReadNext();
  }

  void OnCancel() override { cancelled_ = true; }
  void Stop(const absl::Status&) override { stopped_ = true; }

  // Lets the read fail, whose end then ends the upload. The registry calls it
  // on one thread.
  void EndIdle(const absl::Status& status) override {
    if (idle_) return;
    idle_status_ = status;
    idle_ = true;
    CancelCall(place_, status);
  }

  void OnDone() override { self_.reset(); }

 protected:
  // Takes the next message. Returns false after it has called End; then nothing
  // more is read.
  virtual bool Take(const Message& message) = 0;
  // Called after the last message. Must call End, now or later.
  virtual void Complete() = 0;

  // Gives the place back first, so that who has the answer finds one.
  void End(const absl::Status& status) {
    place_.registry->Remove(this);
    this->Finish(ToGrpc(status));
  }

 private:
  void ReadNext() {
    this->BeginWaitForClient();
    this->StartRead(&message_);
  }

  StreamPlace place_;
  std::shared_ptr<UploadReactor> self_;
  Message message_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> stopped_ = false;
  absl::Status idle_status_;  // written before idle_, read after it
  std::atomic<bool> idle_ = false;
};

}  // namespace gpupool::server
