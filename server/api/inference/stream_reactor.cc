// Invariants of StreamReactor
//  1. entries_ holds requests in the order in which they came. Those of
//     decoupled versions are written as they respond, the others in this order.
//  2. One thread at a time acts on the stream (advancing_), so nothing is
//     started after Finish.
//  3. The reactor lives until gRPC is done with it and every entry that was
//     started is answered.
#include <algorithm>
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

// Tells whether the response is the last one of its request.
void SetFinal(inference::ModelInferResponse* response, bool is_final) {
  (*response->mutable_parameters())["triton_final_response"].set_bool_param(
      is_final);
}

// A request of the stream and its responses. A decoupled version gives any
// number of them, one at a time in `response`, before the last one in `last`.
class StreamRequest final : public InferRequest {
 public:
  explicit StreamRequest(const InferContext& infer_context)
      : InferRequest(infer_context) {}

  void Run(std::shared_ptr<StreamReactor> stream, absl::Time deadline) {
    stream_ = std::move(stream);
    Start(request, response.mutable_infer_response(), deadline);
  }
  using InferRequest::Continue;
  using InferRequest::decoupled;

  // Returns the message with the last response, and null if there is none
  // because the client does not want one without outputs. Call it when the
  // request is answered.
  inference::ModelStreamInferResponse* Last();

  inference::ModelInferRequest request;
  inference::ModelStreamInferResponse response;
  absl::Status status;
  // All are guarded by the reactor's mutex.
  bool started = false;
  bool answered = false;
  bool has_response = false;  // `response` waits to be written
  bool listed = false;        // in ready_

 private:
  bool TakesResponses() const override { return true; }
  void Responded() override;
  void Finished(const absl::Status& result) override;

  inference::ModelStreamInferResponse last_;
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
    if (infer_context_.access != nullptr) {
      caller_ = infer_context_.access->CallerOf(*context);
    }
    if (infer_context_.regions != nullptr) {
      region_caller_ = infer_context_.regions->CallerOf(*context);
    }
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

  void Responded(StreamRequest* entry) {
    {
      absl::MutexLock lock(&mutex_);
      entry->has_response = true;
      List(entry);
    }
    Advance();
  }

  void Answered(StreamRequest* entry) {
    {
      absl::MutexLock lock(&mutex_);
      entry->answered = true;
      ListAnswered();
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
    entry->SetCaller(caller_);
    entry->SetRegionCaller(region_caller_);
    entry->Run(shared_from_this(), deadline_);
    bool cancelled;
    {
      absl::MutexLock lock(&mutex_);
      entry->started = true;
      // Requests behind this one wait for it no longer if it is decoupled.
      ListAnswered();
      cancelled = cancelled_;
    }
    // CancelAll skips entries that have not started, so that one that starts
    // during it must be cancelled here.
    if (cancelled) entry->Cancel();
  }

  void OnWriteDone(bool ok) override {
    Entry written;  // destroyed outside the lock
    bool goes_on;
    {
      absl::MutexLock lock(&mutex_);
      writing_ = false;
      if (!ok) cancelled_ = true;
      written = std::move(written_);
      goes_on = written->has_response;
      if (goes_on) {
        written->has_response = false;
        ListAnswered();
      } else {
        Remove(written.get());
      }
    }
    if (goes_on) written->Continue();
    Advance();
  }

  void OnCancel() override {
    CancelAll();
    Advance();
  }

  // Cancels the waiting requests without the lock, since Cancel may answer
  // them, and answers come back to Answered.
  void CancelAll() {
    std::vector<Entry> waiting;
    {
      absl::MutexLock lock(&mutex_);
      cancelled_ = true;
      for (const Entry& entry : entries_) {
        if (entry->started && !entry->answered) waiting.push_back(entry);
      }
    }
    for (const Entry& entry : waiting) entry->Cancel();
  }

  // After an error that ended the stream, nobody reads the responses of the
  // other requests.
  void OnDone() override {
    CancelAll();
    self_.reset();
  }

  // Adds an entry to those that have something to write, the oldest first.
  void List(StreamRequest* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (std::exchange(entry->listed, true)) return;
    ready_.push_back(entry);
  }

  // Lists answered entries whose last response may be written: of decoupled
  // versions at any time, of others in the order of the requests.
  void ListAnswered() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    bool in_order = true;
    for (const Entry& entry : entries_) {
      // The one that is being written is listed again after that.
      if (entry == written_) continue;
      if (!entry->answered) {
        // Whether a request is decoupled is known when it has started.
        in_order = in_order && entry->started && entry->decoupled();
      } else if (entry->decoupled() || in_order) {
        List(entry.get());
      }
    }
  }

  void Remove(StreamRequest* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    entries_.erase(
        std::find_if(entries_.begin(), entries_.end(),
                     [&](const Entry& other) { return other.get() == entry; }));
  }

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
    StreamRequest* const next = cancelled_ ? nullptr : NextToWrite();
    const bool failed = ends_at_error_ && next != nullptr &&
                        !next->has_response && !next->status.ok();
    if (cancelled_ || failed || (half_closed_ && entries_.empty())) {
      finished_ = true;
      if (cancelled_)
        result_ = absl::CancelledError("the stream was cancelled");
      if (failed) result_ = next->status;
      return Action::kFinish;
    }
    if (next == nullptr) return ReadOrNone();
    writing_ = true;
    written_ =
        *std::find_if(entries_.begin(), entries_.end(),
                      [&](const Entry& entry) { return entry.get() == next; });
    return Action::kWrite;
  }

  // Takes the next entry that has something to write; null: none has. Forgets
  // requests that end without a last response.
  StreamRequest* NextToWrite() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    while (!ready_.empty()) {
      StreamRequest* const next = ready_.front();
      ready_.pop_front();
      next->listed = false;
      if (next->has_response || next->Last() != nullptr) return next;
      Remove(next);
    }
    return nullptr;
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
      inference::ModelStreamInferResponse* message;
      {
        absl::MutexLock lock(&mutex_);
        message =
            written_->has_response ? &written_->response : written_->Last();
      }
      StartWrite(message);
    } else {
      Finish(ToGrpc(result_));
    }
  }

  const InferContext infer_context_;
  const absl::Time deadline_;
  // The caller at the start of the stream, also for shared memory.
  absl::StatusOr<Identity> caller_ = Identity{};
  absl::StatusOr<RegionCaller> region_caller_ = RegionCaller{};
  // Headers of the stream, which all its requests share.
  std::string trace_parent_;
  std::string trace_state_;
  bool ends_at_error_ = false;
  std::shared_ptr<StreamReactor> self_;  // held until OnDone
  Entry next_;                           // set while a read is pending
  absl::Status result_;                  // set before finished_

  absl::Mutex mutex_;
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::deque<StreamRequest*> ready_ ABSL_GUARDED_BY(mutex_);  // of entries_
  Entry written_ ABSL_GUARDED_BY(mutex_);  // set while a write is pending
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool half_closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  bool advancing_ ABSL_GUARDED_BY(mutex_) = false;
};

void StreamRequest::Responded() {
  SetFinal(response.mutable_infer_response(), false);
  stream_->Responded(this);
}

void StreamRequest::Finished(const absl::Status& result) {
  status = result;
  // `response` may still have to be written.
  if (!status.ok()) {
    last_.mutable_infer_response()->set_id(request.id());
    last_.set_error_message(std::string(status.message()));
  } else if (decoupled()) {
    FillIdentity(last_.mutable_infer_response());
  } else {
    last_ = std::move(response);
  }
  SetFinal(last_.mutable_infer_response(), true);
  const std::shared_ptr<StreamReactor> stream = std::move(stream_);
  stream->Answered(this);
}

inference::ModelStreamInferResponse* StreamRequest::Last() {
  const bool unwanted = status.ok() && decoupled() && !wants_empty_final();
  return unwanted ? nullptr : &last_;
}

}  // namespace

grpc::ServerBidiReactor<inference::ModelInferRequest,
                        inference::ModelStreamInferResponse>*
StartInferStream(const InferContext& infer_context,
                 grpc::CallbackServerContext* context) {
  return StreamReactor::Create(infer_context, context);
}

}  // namespace gpupool::server
