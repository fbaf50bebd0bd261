#include "server/http/request_body.h"

#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/port/request_parser.h"

namespace gpupool::server {
namespace {

// Bytes that are unpacked at a time.
constexpr size_t kPiece = 64 << 10;
// zlib's number for: the largest window, and gzip or zlib as the data say.
constexpr int kGzipOrZlib = 15 + 32;

enum class Encoding { kNone, kGzip, kDeflate, kOther };

Encoding EncodingOf(const HttpRequest& request) {
  const size_t count = request.Count("Content-Encoding");
  if (count == 0) return Encoding::kNone;
  if (count > 1) return Encoding::kOther;
  const absl::string_view name =
      absl::StripAsciiWhitespace(request.Header("Content-Encoding"));
  if (name.empty() || absl::EqualsIgnoreCase(name, "identity")) {
    return Encoding::kNone;
  }
  if (absl::EqualsIgnoreCase(name, "gzip") ||
      absl::EqualsIgnoreCase(name, "x-gzip")) {
    return Encoding::kGzip;
  }
  if (absl::EqualsIgnoreCase(name, "deflate")) return Encoding::kDeflate;
  return Encoding::kOther;
}

// Unpacks data of zlib or gzip.
class Unpacker {
 public:
  explicit Unpacker(absl::string_view packed) : packed_(packed) {
    // zlib reads from there only.
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    ready_ = inflateInit2(&stream_, kGzipOrZlib) == Z_OK;
  }
  ~Unpacker() {
    if (ready_) inflateEnd(&stream_);
  }
  Unpacker(const Unpacker&) = delete;
  Unpacker& operator=(const Unpacker&) = delete;

  // Appends one member. Stops when there are more than `most` bytes.
  absl::Status TakeMember(size_t most, std::string* body) {
    if (!ready_) return absl::InternalError("zlib has no memory");
    while (body->size() <= most) {
      const size_t before = body->size();
      const size_t room = std::min(kPiece, most + 1 - before);
      body->resize(before + room);
      stream_.next_out = reinterpret_cast<Bytef*>(body->data() + before);
      stream_.avail_out = static_cast<uInt>(room);
      const size_t offered = std::min(rest().size(), size_t{1} << 30);
      stream_.avail_in = static_cast<uInt>(offered);
      const int result = inflate(&stream_, Z_NO_FLUSH);
      used_ += offered - stream_.avail_in;
      body->resize(before + room - stream_.avail_out);
      if (result == Z_STREAM_END) return absl::OkStatus();
      if (result == Z_OK) continue;
      return absl::InvalidArgumentError(result == Z_BUF_ERROR
                                            ? "the compressed body ends early"
                                            : "the compressed body is damaged");
    }
    return absl::OkStatus();
  }

  // Returns what follows the members that were taken.
  absl::string_view rest() const { return packed_.substr(used_); }
  bool BeginNextMember() { return inflateReset(&stream_) == Z_OK; }

 private:
  const absl::string_view packed_;
  size_t used_ = 0;
  z_stream stream_ = {};
  bool ready_ = false;
};

absl::StatusOr<std::string> Unpacked(absl::string_view packed,
                                     Encoding encoding, size_t most) {
  std::string body;
  Unpacker unpacker(packed);
  do {
    const absl::Status taken = unpacker.TakeMember(most, &body);
    if (!taken.ok()) return taken;
    if (body.size() > most) {
      return absl::ResourceExhaustedError(BodyTooLarge(most));
    }
  } while (encoding == Encoding::kGzip && !unpacker.rest().empty() &&
           unpacker.BeginNextMember());
  if (unpacker.rest().empty()) return body;
  return absl::InvalidArgumentError(
      "the compressed body is followed by other bytes");
}

}  // namespace

absl::Status CheckEncoding(const HttpRequest& request) {
  if (EncodingOf(request) != Encoding::kOther) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "Content-Encoding is '", request.Header("Content-Encoding").substr(0, 80),
      "'; it must be gzip, deflate or identity, once"));
}

absl::StatusOr<std::string> TakeBody(HttpRequest& request, size_t most) {
  const Encoding encoding = EncodingOf(request);
  std::string body = std::move(request.body);
  request.body = std::string();
  if (encoding == Encoding::kNone || body.empty()) return body;
  return Unpacked(body, encoding, most);
}

}  // namespace gpupool::server
