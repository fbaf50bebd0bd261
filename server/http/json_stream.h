// Private to server/http: the responses of a streaming rpc, written to an HTTP
// connection one by one, each in a chunk of its own.
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
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/generic_call.h"
#include "server/http/open_calls.h"

namespace google::protobuf {
class Descriptor;
}  // namespace google::protobuf

namespace httplib {
class DataSink;
}  // namespace httplib

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

  // Writes what is next, or finds out after a while without messages whether
  // the client is still there. False: it is gone, or takes nothing any more.
  bool Write(httplib::DataSink& sink);

 private:
  bool WriteMessage(httplib::DataSink& sink);
  bool WriteEnd(const absl::Status& status, httplib::DataSink& sink);

  std::shared_ptr<GenericCall> call_;  // null once the end is written
  const OpenCalls* const calls_;
  const google::protobuf::Descriptor* const response_;
  const StreamForm form_;
  // The event of AwaitFirst that Write still has to handle.
  GenericCall::Event first_ = GenericCall::Event::kNothing;
};

}  // namespace gpupool::server
