#include "server/http/generic_call.h"

#include <utility>
#include <vector>

namespace gpupool::server {
namespace {

// Returns a slice that owns the text, so that a large request is not copied.
grpc::Slice SliceOf(std::string text) {
  auto* owned = new std::string(std::move(text));
  return grpc::Slice(
      owned->data(), owned->size(),
      [](void* string) { delete static_cast<std::string*>(string); }, owned);
}

}  // namespace

GenericCall::GenericCall(const std::shared_ptr<grpc::Channel>& channel,
                         absl::Time deadline)
    : stub_(channel) {
  if (deadline != absl::InfiniteFuture()) {
    context_.set_deadline(absl::ToChronoTime(deadline));
  }
}

GenericCall::~GenericCall() {
  {
    absl::MutexLock lock(&mutex_);
    if (state_ == State::kNotStarted || state_ == State::kEnded) return;
  }
  Cancel();
  while (Next(absl::InfiniteFuture()) != Event::kEnd) {
  }
}

void GenericCall::Start(const std::string& path, std::string request) {
  {
    absl::MutexLock lock(&mutex_);
    state_ = State::kReading;
  }
  const grpc::Slice slice = SliceOf(std::move(request));
  request_ = grpc::ByteBuffer(&slice, 1);
  stub_.PrepareBidiStreamingCall(&context_, path, grpc::StubOptions(), this);
  AddHold();
  StartWriteLast(&request_, grpc::WriteOptions());
  StartRead(&response_);
  StartCall();
}

void GenericCall::StartUnary(const std::string& path, std::string request) {
  unary_ = true;
  Start(path, std::move(request));
}

GenericCall::Event GenericCall::Next(absl::Time until) {
  StartNextRead();
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithDeadline(absl::Condition(this, &GenericCall::HasNews), until);
  if (state_ == State::kArrived) {
    TakeMessage();
    state_ = State::kTaken;
    return Event::kMessage;
  }
  return state_ == State::kEnded ? Event::kEnd : Event::kNothing;
}

absl::Status GenericCall::status() const {
  absl::MutexLock lock(&mutex_);
  return status_;
}

void GenericCall::StartNextRead() {
  {
    absl::MutexLock lock(&mutex_);
    if (state_ != State::kTaken) return;
    state_ = State::kReading;
  }
  // Without the lock, since gRPC may call back before this returns.
  StartRead(&response_);
}

void GenericCall::TakeMessage() {
  message_.clear();
  message_.reserve(response_.Length());
  std::vector<grpc::Slice> slices;
  if (!response_.Dump(&slices).ok()) return;
  for (const grpc::Slice& slice : slices) {
    message_.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
}

void GenericCall::OnReadDone(bool ok) {
  if (ok && unary_) {
    TakeMessage();
    StartRead(&response_);
    return;
  }
  {
    absl::MutexLock lock(&mutex_);
    state_ = ok ? State::kArrived : State::kDrained;
  }
  if (!ok) RemoveHold();
}

void GenericCall::OnDone(const grpc::Status& status) {
  absl::MutexLock lock(&mutex_);
  status_ = absl::Status(static_cast<absl::StatusCode>(status.error_code()),
                         status.error_message());
  state_ = State::kEnded;
}

}  // namespace gpupool::server
