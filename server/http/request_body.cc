#include "server/http/request_body.h"

#include <httplib.h>

#include <algorithm>
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

// Returns false without both headers: there is no body then, but httplib would
// wait for one.
bool HasBody(const httplib::Request& request) {
  return request.has_header("Content-Length") ||
         request.has_header("Transfer-Encoding");
}

uint64_t AnnouncedLength(const httplib::Request& request) {
  return request.has_header("Content-Length")
             ? request.get_header_value<uint64_t>("Content-Length")
             : 0;
}

// Gives the body to `take`, piece by piece. Returns false when it did not come
// to its end: after more than `most` bytes, and when it takes too long.
template <typename Take>
bool ReadPieces(const httplib::ContentReader& reader, uint64_t most,
                const Take& take) {
  const absl::Time deadline = absl::Now() + kLongestBody;
  uint64_t bytes = 0;
  return reader([&](const char* data, size_t size) {
    bytes += size;
    take(data, size);
    return bytes <= most && absl::Now() < deadline;
  });
}

}  // namespace

absl::StatusOr<std::string> ReadBody(const httplib::Request& request,
                                     const httplib::ContentReader& reader,
                                     size_t most) {
  if (!HasBody(request)) return std::string();
  // httplib would call handlers of parts, and there are none.
  if (request.is_multipart_form_data()) {
    return absl::InvalidArgumentError("a body of several parts is not read");
  }
  // httplib itself refuses an announced length above its own bound.
  const uint64_t length = AnnouncedLength(request);
  std::string body;
  body.reserve(std::min<uint64_t>(length, most));
  size_t bytes = 0;
  const bool whole =
      ReadPieces(reader, std::max<uint64_t>(kReadBeyond * most, length),
                 [&](const char* data, size_t size) {
                   bytes += size;
                   if (bytes <= most) body.append(data, size);
                 });
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

uint64_t BoundOfBody(const httplib::Request& request, size_t most) {
  if (!HasBody(request)) return 0;
  // A compressed body has more bytes than it announces.
  if (!request.has_header("Content-Length") ||
      request.has_header("Content-Encoding")) {
    return most;
  }
  return std::min<uint64_t>(AnnouncedLength(request), most);
}

void DiscardBody(const httplib::Request& request,
                 const httplib::ContentReader& reader, size_t most) {
  if (!HasBody(request) || request.is_multipart_form_data()) return;
  ReadPieces(reader,
             std::max<uint64_t>(kReadBeyond * most, AnnouncedLength(request)),
             [](const char*, size_t) {});
}

}  // namespace gpupool::server
