#include "server/http/json_stream.h"

#include <google/protobuf/descriptor.h>
#include <httplib.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/http/http_status.h"
#include "server/http/json_messages.h"

namespace gpupool::server {
namespace {

using Event = GenericCall::Event;

// Time between two looks at a client that is sent nothing.
constexpr absl::Duration kLookAtClient = absl::Milliseconds(500);

std::string MessageText(const std::string& json, StreamForm form) {
  return form == StreamForm::kLines ? absl::StrCat(json, "\n")
                                    : absl::StrCat("data: ", json, "\n\n");
}

std::string ErrorText(const absl::Status& status, StreamForm form) {
  const std::string json = StatusJson(status.code(), status.message());
  return form == StreamForm::kLines
             ? absl::StrCat("{\"error\":", json, "}\n")
             : absl::StrCat("event: error\ndata: ", json, "\n\n");
}

}  // namespace

JsonStream::JsonStream(std::shared_ptr<GenericCall> call,
                       const OpenCalls* calls,
                       const google::protobuf::Descriptor* response,
                       StreamForm form)
    : call_(std::move(call)), calls_(calls), response_(response), form_(form) {}

absl::Status JsonStream::AwaitFirst(absl::Duration time) {
  first_ = call_->Next(absl::Now() + time);
  if (first_ != Event::kEnd) return absl::OkStatus();
  return calls_->StatusOf(*call_);
}

bool JsonStream::Write(httplib::DataSink& sink) {
  const Event event = first_ != Event::kNothing
                          ? std::exchange(first_, Event::kNothing)
                          : call_->Next(absl::Now() + kLookAtClient);
  switch (event) {
    case Event::kMessage:
      return WriteMessage(sink);
    case Event::kEnd:
      return WriteEnd(calls_->StatusOf(*call_), sink);
    default:
      return sink.is_writable();
  }
}

bool JsonStream::WriteMessage(httplib::DataSink& sink) {
  const absl::StatusOr<std::string> json =
      JsonOfWire(*response_, call_->message());
  if (!json.ok()) return WriteEnd(json.status(), sink);
  const std::string text = MessageText(*json, form_);
  return sink.write(text.data(), text.size());
}

bool JsonStream::WriteEnd(const absl::Status& status, httplib::DataSink& sink) {
  // First, so that the client may open another stream when it sees the end.
  call_.reset();
  if (!status.ok()) {
    const std::string text = ErrorText(status, form_);
    if (!sink.write(text.data(), text.size())) return false;
  }
  sink.done();
  return true;
}

}  // namespace gpupool::server
