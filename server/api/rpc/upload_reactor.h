// Private to server/api: the common part of all uploads. A derived class takes
// the messages of the stream. This one reads them, and ends the stream once
// when the client is done, gone or told to come back later.
//
// Thread-safety: gRPC calls the On functions one at a time, except OnCancel.
// Stop may be called from any thread. End is called once, from any thread.
// Ownership: an upload owns itself from Begin until gRPC is done with it.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "server/api/rpc/grpc_status.h"
#include "server/api/rpc/stream_registry.h"

namespace gpupool::server {

template <typename Message>
class UploadReactor : public grpc::ServerReadReactor<Message>,
                      public OpenStream {
 public:
  // Starts the upload. It ends itself with an error when the registry is full.
  static UploadReactor* Begin(std::shared_ptr<UploadReactor> upload,
                              StreamRegistry* registry) {
    UploadReactor* raw = upload.get();
    raw->registry_ = registry;
    const absl::Status added = registry->Add(upload);
    raw->self_ = std::move(upload);
    if (added.ok()) {
      raw->StartRead(&raw->message_);
    } else {
      raw->End(added);
    }
    return raw;
  }

  void OnReadDone(bool ok) override {
    if (stopped_) {
      return End(
          absl::UnavailableError("the server is stopping; upload again later"));
    }
    if (!ok && cancelled_) {
      return End(absl::CancelledError("the client went away"));
    }
    if (!ok) return Complete();
    if (Take(message_)) this->StartRead(&message_);
  }

  void OnCancel() override { cancelled_ = true; }
  void Stop(const absl::Status&) override { stopped_ = true; }

  void OnDone() override {
    registry_->Remove(this);
    self_.reset();
  }

 protected:
  // Takes the next message. Returns false after it has called End; then nothing
  // more is read.
  virtual bool Take(const Message& message) = 0;
  // Called after the last message. Must call End, now or later.
  virtual void Complete() = 0;

  void End(const absl::Status& status) { this->Finish(ToGrpc(status)); }

 private:
  StreamRegistry* registry_ = nullptr;
  std::shared_ptr<UploadReactor> self_;
  Message message_;
  std::atomic<bool> cancelled_ = false;
  std::atomic<bool> stopped_ = false;
};

}  // namespace gpupool::server
