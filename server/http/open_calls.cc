#include "server/http/open_calls.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace gpupool::server {
namespace {

absl::Status ShuttingDown() {
  return absl::UnavailableError("the server is shutting down");
}

}  // namespace

OpenCalls::OpenCalls(std::string kind, size_t most)
    : kind_(std::move(kind)), most_(most) {}

absl::StatusOr<std::shared_ptr<GenericCall>> OpenCalls::Open(
    const std::shared_ptr<grpc::Channel>& channel, absl::Time deadline) {
  auto call = std::make_unique<GenericCall>(channel, deadline);
  absl::MutexLock lock(&mutex_);
  const absl::Status room = Room();
  if (!room.ok()) return room;
  calls_.insert(call.get());
  return std::shared_ptr<GenericCall>(call.release(),
                                      [this](GenericCall* ended) {
                                        Remove(ended);
                                        delete ended;
                                      });
}

absl::Status OpenCalls::CheckRoom() const {
  absl::MutexLock lock(&mutex_);
  return Room();
}

absl::Status OpenCalls::Room() const {
  if (closed_) return ShuttingDown();
  if (calls_.size() < most_) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat(
      most_, " ", kind_,
      " are open over HTTP, which is the most; retry later, or call by gRPC"));
}

absl::Status OpenCalls::StatusOf(const GenericCall& call) const {
  const absl::Status status = call.status();
  absl::MutexLock lock(&mutex_);
  return closed_ && absl::IsCancelled(status) ? ShuttingDown() : status;
}

void OpenCalls::CancelAll() {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  for (GenericCall* call : calls_) call->Cancel();
}

void OpenCalls::Close(absl::Time end) {
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    const absl::Condition empty(this, &OpenCalls::IsEmpty);
    if (mutex_.AwaitWithDeadline(empty, end)) return;
  }
  CancelAll();
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(this, &OpenCalls::IsEmpty));
}

void OpenCalls::Remove(GenericCall* call) {
  absl::MutexLock lock(&mutex_);
  calls_.erase(call);
}

}  // namespace gpupool::server
