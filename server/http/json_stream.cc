#include "server/http/json_stream.h"

#include <google/protobuf/descriptor.h>

#include <string>
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

void JsonStream::WriteAll(BodyWriter& writer) {
  while (call_ != nullptr) {
    switch (Next()) {
      case Event::kMessage:
        if (!WriteMessage(writer)) call_.reset();
        break;
      case Event::kEnd:
        WriteEnd(calls_->StatusOf(*call_), writer);
        break;
      default:
        if (!writer.is_open()) call_.reset();
    }
  }
}

Event JsonStream::Next() {
  return first_ != Event::kNothing ? std::exchange(first_, Event::kNothing)
                                   : call_->Next(absl::Now() + kLookAtClient);
}

bool JsonStream::WriteMessage(BodyWriter& writer) {
  const absl::StatusOr<std::string> json =
      JsonOfWire(*response_, call_->message());
  if (json.ok()) return writer.Write(MessageText(*json, form_));
  WriteEnd(json.status(), writer);
  return false;
}

void JsonStream::WriteEnd(const absl::Status& status, BodyWriter& writer) {
  // First, so that the client may open another stream when it sees the end.
  call_.reset();
  if (!status.ok()) writer.Write(ErrorText(status, form_));
}

}  // namespace gpupool::server
