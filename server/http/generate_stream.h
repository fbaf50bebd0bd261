// Private to server/http: the responses of ModelStreamInfer to one request, as
// /generate and /generate_stream answer them. The next response is not taken
// from the server before the client has taken the one before the last.
//
// Thread-safety: one thread. Ownership: shares the call; the rpc is cancelled
// with the last owner.
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/generic_call.h"
#include "server/http/open_calls.h"
#include "server/http/port/http_response.h"

namespace gpupool::server {

class GenerateStream {
 public:
  // Takes the responses of a call that was started, which ends at its first
  // error.
  GenerateStream(std::shared_ptr<GenericCall> call, const OpenCalls* calls)
      : call_(std::move(call)), calls_(calls) {}

  // Waits for the first response or the end. Returns the error of a call that
  // failed before its first response.
  absl::Status AwaitFirst();
  // Returns the only response as JSON, after AwaitFirst. InvalidArgument: there
  // is none, or another one.
  absl::StatusOr<std::string> TakeOnly();
  // Writes all responses as server-sent events, after AwaitFirst, until the
  // call ends or the client goes away. An error is an event, too:
  // {"error":text}.
  void WriteAll(BodyWriter& writer);

 private:
  enum class News { kResponse, kEnd, kNothing };

  // Waits at most until then. After kResponse, json_ is the response.
  News Next(absl::Time until);

  std::shared_ptr<GenericCall> call_;  // null once the end is known
  const OpenCalls* const calls_;
  std::string json_;
  absl::Status status_;  // of the end
  bool has_first_ = false;
};

}  // namespace gpupool::server
