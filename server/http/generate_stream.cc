#include "server/http/generate_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "inference/grpc_service.pb.h"
#include "server/http/rest/rest_generate.h"
#include "server/http/rest/rest_json.h"

namespace gpupool::server {
namespace {

// Time between two looks at a client that is sent nothing.
constexpr absl::Duration kGenerateLook = absl::Milliseconds(500);

std::string EventText(absl::string_view json) {
  return absl::StrCat("data: ", json, "\n\n");
}

}  // namespace

GenerateStream::News GenerateStream::Next(absl::Time until) {
  while (call_ != nullptr) {
    const GenericCall::Event event = call_->Next(until);
    if (event == GenericCall::Event::kNothing) return News::kNothing;
    if (event == GenericCall::Event::kEnd) {
      status_ = calls_->StatusOf(*call_);
      // First, so that the client may send another request when it sees the
      // end.
      call_.reset();
      break;
    }
    inference::ModelStreamInferResponse response;
    absl::StatusOr<std::string> json =
        absl::InternalError("the answer of the server cannot be read");
    if (response.ParseFromString(call_->message())) {
      if (IsEmptyFinal(response.infer_response())) continue;
      json = response.error_message().empty()
                 ? GenerateJson(response.infer_response())
                 : absl::InvalidArgumentError(response.error_message());
    }
    if (json.ok()) {
      json_ = *std::move(json);
      return News::kResponse;
    }
    status_ = json.status();
    call_.reset();
  }
  return News::kEnd;
}

absl::Status GenerateStream::AwaitFirst() {
  has_first_ = Next(absl::InfiniteFuture()) == News::kResponse;
  return has_first_ ? absl::OkStatus() : status_;
}

absl::StatusOr<std::string> GenerateStream::TakeOnly() {
  const std::string only = std::move(json_);
  const bool another =
      has_first_ && Next(absl::InfiniteFuture()) == News::kResponse;
  call_.reset();
  if (!status_.ok()) return status_;
  if (has_first_ && !another) return only;
  return absl::InvalidArgumentError(
      "generate expects model to produce exactly 1 response, use generate "
      "stream for models that produce varying number of responses");
}

void GenerateStream::WriteAll(BodyWriter& writer) {
  if (!has_first_) return;
  bool open = writer.Write(EventText(json_));
  while (open) {
    switch (Next(absl::Now() + kGenerateLook)) {
      case News::kResponse:
        open = writer.Write(EventText(json_));
        break;
      case News::kNothing:
        open = writer.is_open();
        break;
      case News::kEnd:
        if (!status_.ok()) {
          writer.Write(EventText(ErrorJson(std::string(status_.message()))));
        }
        open = false;
    }
  }
  call_.reset();
}

}  // namespace gpupool::server
