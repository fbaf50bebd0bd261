// Invariants of StreamReactor
//  1. entries_ holds requests in the order in which they came; only the front
//     is ever written.
//  2. One thread at a time acts on the stream (advancing_), so nothing is
//     started after Finish.
//  3. The reactor lives until gRPC is done with it and every entry that was
//     started is answered.
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "server/api/inference/infer_reactors.h"
#include "server/api/rpc/grpc_status.h"
#include "server/api/rpc/trace_headers.h"

namespace gpupool::server {
namespace {

class StreamReactor;

// A request of the stream and its response.
class StreamRequest final : public InferRequest {
 public:
  explicit StreamRequest(const InferContext& infer_context)
      : InferRequest(infer_context) {}

  void Run(std::shared_ptr<StreamReactor> stream, absl::Time deadline) {
    stream_ = std::move(stream);
    Start(request, response.mutable_infer_response(), deadline);
  }

  inference::ModelInferRequest request;
  inference::ModelStreamInferResponse response;
  absl::Status status;
  // Both are guarded by the reactor's mutex.
  bool started = false;
  bool answered = false;

 private:
  void Finished(const absl::Status& result) override;
  void WriteError();

  std::shared_ptr<StreamReactor> stream_;  // held until answered
};

class StreamReactor final
    : public grpc::ServerBidiReactor<inference::ModelInferRequest,
                                     inference::ModelStreamInferResponse>,
      public std::enable_shared_from_this<StreamReactor> {
 public:
  static StreamReactor* Create(const InferContext& infer_context,
                               grpc::CallbackServerContext* context) {
    auto stream = std::make_shared<StreamReactor>(infer_context, context);
    stream->self_ = stream;
    stream->Advance();
    return stream.get();
  }

  StreamReactor(const InferContext& infer_context,
                grpc::CallbackServerContext* context)
      : infer_context_(infer_context), deadline_(DeadlineOf(*context)) {
    const auto mode = context->client_metadata().find("triton_grpc_error");
    if (infer_context_.tracer != nullptr) {
      std::string joined;
      const TraceHeaders headers =
          TraceHeadersOf(context->client_metadata(), &joined);
      trace_parent_ = std::string(headers.parent);
      trace_state_ = std::string(headers.state);
    }
    ends_at_error_ =
        mode != context->client_metadata().end() && mode->second == "true";
  }

  void Answered(StreamRequest* entry) {
    {
      absl::MutexLock lock(&mutex_);
      entry->answered = true;
    }
    Advance();
  }

 private:
  using Entry = std::shared_ptr<StreamRequest>;
  enum class Action { kNone, kRead, kWrite, kFinish };

  void OnReadDone(bool ok) override {
    if (ok) Accept();
    {
      absl::MutexLock lock(&mutex_);
      reading_ = false;
      half_closed_ = !ok;
    }
    Advance();
  }

  void Accept() {
    const Entry entry = std::move(next_);
    {
      absl::MutexLock lock(&mutex_);
      entries_.push_back(entry);
    }
    entry->BeginTrace({.parent = trace_parent_, .state = trace_state_},
                      kStreamInferSpan);
    entry->Run(shared_from_this(), deadline_);
    bool cancelled;
    {
      absl::MutexLock lock(&mutex_);
      entry->started = true;
      cancelled = cancelled_;
    }
    // OnCancel skips entries that have not started, so that one that starts
    // during it must be cancelled here.
    if (cancelled) entry->Cancel();
  }

  void OnWriteDone(bool ok) override {
    Entry written;  // destroyed outside the lock
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) cancelled_ = true;
      written = std::move(entries_.front());
      entries_.pop_front();
    }
    Advance();
  }

  // Cancels the waiting requests without the lock, since Cancel may answer
  // them, and answers come back to Answered.
  void OnCancel() override {
    std::vector<Entry> waiting;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      for (const Entry& entry : entries_) {
        if (entry->started && !entry->answered) waiting.push_back(entry);
      }
    }
    for (const Entry& entry : waiting) entry->Cancel();
    Advance();
  }

  void OnDone() override { self_.reset(); }

  // Takes all steps that are possible now. While one thread is in the loop,
  // other calls, also from further up its own stack, return at once; the loop
  // sees their changes before it ends.
  void Advance() {
    // gRPC may call OnDone, which drops self_, before this call returns.
    const std::shared_ptr<StreamReactor> keep_alive = shared_from_this();
    {
      absl::MutexLock lock(&mutex_);
      if (advancing_) return;
      advancing_ = true;
    }
    while (true) {
      Action action;
      {
        absl::MutexLock lock(&mutex_);
        action = NextAction();
        if (action == Action::kNone) {
          advancing_ = false;
          return;
        }
      }
      Perform(action);
    }
  }

  // Chooses the next step and marks it as begun. Finish must be the last call
  // on the stream, so that it waits for a pending write.
  Action NextAction() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || writing_) return ReadOrNone();
    const bool front_answered = !entries_.empty() && entries_.front()->answered;
    const bool failed =
        ends_at_error_ && front_answered && !entries_.front()->status.ok();
    if (cancelled_ || failed || (half_closed_ && entries_.empty())) {
      finished_ = true;
      if (cancelled_)
        result_ = absl::CancelledError("the stream was cancelled");
      if (failed) result_ = entries_.front()->status;
      return Action::kFinish;
    }
    if (front_answered) {
      writing_ = true;
      return Action::kWrite;
    }
    return ReadOrNone();
  }

  Action ReadOrNone() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (finished_ || cancelled_ || half_closed_ || reading_ ||
        entries_.size() >= kMaxStreamRequests) {
      return Action::kNone;
    }
    reading_ = true;
    return Action::kRead;
  }

  void Perform(Action action) {
    if (action == Action::kRead) {
      next_ = std::make_shared<StreamRequest>(infer_context_);
      StartRead(&next_->request);
    } else if (action == Action::kWrite) {
      StreamRequest* front;
      {
        absl::MutexLock lock(&mutex_);
        front = entries_.front().get();
      }
      StartWrite(&front->response);
    } else {
      Finish(ToGrpc(result_));
    }
  }

  const InferContext infer_context_;
  const absl::Time deadline_;
  // Headers of the stream, which all its requests share.
  std::string trace_parent_;
  std::string trace_state_;
  bool ends_at_error_ = false;
  std::shared_ptr<StreamReactor> self_;  // held until OnDone
  Entry next_;                           // set while a read is pending
  absl::Status result_;                  // set before finished_

  absl::Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;
};

void StreamRequest::Finished(const absl::Status& result) {
  status = result;
  if (!result.ok()) WriteError();
  inference::ModelInferResponse* answer = response.mutable_infer_response();
  (*answer->mutable_parameters())["triton_final_response"].set_bool_param(true);
  const std::shared_ptr<StreamReactor> stream = std::move(stream_);
  stream->Answered(this);
}

void StreamRequest::WriteError() {
  response.Clear();
  response.mutable_infer_response()->set_id(request.id());
  response.set_error_message(std::string(status.message()));
}

}  // namespace

grpc::ServerBidiReactor<inference::ModelInferRequest,
                        inference::ModelStreamInferResponse>*
StartInferStream(const InferContext& infer_context,
                 grpc::CallbackServerContext* context) {
  return StreamReactor::Create(infer_context, context);
}

}  // namespace gpupool::server
