#include "server/http/request_body.h"

#include <httplib.h>

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gpupool::server {
namespace {

// A body that is up to this many times too large is read nevertheless, because
// a client that still sends would not see the answer.
constexpr size_t kReadBeyond = 4;

// A body that trickles in would occupy a thread for as long as its sender
// likes.
constexpr absl::Duration kLongestBody = absl::Seconds(10);

}  // namespace

absl::StatusOr<std::string> ReadBody(const httplib::Request& request,
                                     const httplib::ContentReader& reader,
                                     size_t most) {
  const bool announced = request.has_header("Content-Length");
  // Without both headers there is no body, but httplib would wait for one.
  if (!announced && !request.has_header("Transfer-Encoding")) {
    return std::string();
  }
  // httplib would call handlers of parts, and there are none.
  if (request.is_multipart_form_data()) {
    return absl::InvalidArgumentError("a body of several parts is not read");
  }
  const absl::Time deadline = absl::Now() + kLongestBody;
  std::string body;
  size_t bytes = 0;
  const bool whole = reader([&](const char* data, size_t size) {
    bytes += size;
    if (bytes <= most) body.append(data, size);
    return bytes <= kReadBeyond * most && absl::Now() < deadline;
  });
  // httplib itself refuses an announced length above its own bound.
  const uint64_t length =
      announced ? request.get_header_value<uint64_t>("Content-Length") : 0;
  if (bytes > most || length > most) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the body has more than ", most,
                     " bytes, which is the most over HTTP"));
  }
  if (!whole) {
    return absl::InvalidArgumentError(
        "the body ends early, took longer than 10 s or has an unknown "
        "encoding");
  }
  return body;
}

}  // namespace gpupool::server
