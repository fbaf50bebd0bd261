// Private to server/http: the responses of a streaming rpc, written to an HTTP
// client one by one, each in a chunk of its own.
//
//   newline-delimited JSON   message LF ... [{"error":{"code","message"}} LF]
//   server-sent events       "data: " message LF LF ...
//                            ["event: error" LF "data: {"code","message"}" LF
//                            LF]
//
// The part in brackets is there when the rpc fails after the headers were sent.
//
// Thread-safety: one thread. Ownership: shares the call; the rpc is cancelled
// with the last owner.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/generic_call.h"
#include "server/http/open_calls.h"
#include "server/http/port/http_response.h"

namespace google::protobuf {
class Descriptor;
}  // namespace google::protobuf

namespace gpupool::server {

enum class StreamForm { kLines, kServerSentEvents };

class JsonStream {
 public:
  // Streams the responses, of type `response`, of a call that was started.
  JsonStream(std::shared_ptr<GenericCall> call, const OpenCalls* calls,
             const google::protobuf::Descriptor* response, StreamForm form);

  // Waits until there is something to write, at most for `time`. Returns the
  // rpc's error if it failed before its first message.
  absl::Status AwaitFirst(absl::Duration time);

  // Writes all that comes, until the rpc ends or the client goes away. While
  // there are no messages it looks from time to time whether the client is
  // there. The rpc has ended when this returns.
  void WriteAll(BodyWriter& writer);

 private:
  GenericCall::Event Next();
  // Returns false when the stream is over.
  bool WriteMessage(BodyWriter& writer);
  void WriteEnd(const absl::Status& status, BodyWriter& writer);

  std::shared_ptr<GenericCall> call_;  // null once the end is written
  const OpenCalls* const calls_;
  const google::protobuf::Descriptor* const response_;
  const StreamForm form_;
  // The event of AwaitFirst that WriteAll still has to handle.
  GenericCall::Event first_ = GenericCall::Event::kNothing;
};

}  // namespace gpupool::server
