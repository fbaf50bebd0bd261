#include "engine/data/bytes/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// The bounds of unpacking; see byte_stream.h.
constexpr uint64_t kFreeBytes = uint64_t{64} << 20;
constexpr uint64_t kMaxRatio = 200;
constexpr int kGzipWindow = 15 + 16;  // zlib's code for "gzip only"
constexpr int kRawWindow = -15;       // zlib's code for "no header"

class Plain : public ByteStream {
 public:
  explicit Plain(std::string_view bytes) : rest_(bytes) {}
  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const size_t count = std::min(out.size(), rest_.size());
    if (count > 0) std::memcpy(out.data(), rest_.data(), count);
    rest_.remove_prefix(count);
    return count;
  }
  std::optional<std::string_view> InPlace() const override { return rest_; }

 private:
  std::string_view rest_;
};

// Unpacks gzip or raw deflate with zlib.
class Inflate : public ByteStream {
 public:
  Inflate(std::string_view packed, int window_bits)
      : packed_bytes_(packed.size()),
        rest_(packed),
        many_members_(window_bits == kGzipWindow) {
    GPUPOOL_CHECK(inflateInit2(&zlib_, window_bits) == Z_OK);
  }
  ~Inflate() override { inflateEnd(&zlib_); }

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    // A step may consume header bytes only and give nothing; 0 means the end,
    // so it must not be returned before.
    size_t count = 0;
    while (count == 0 && !ended_ && !out.empty()) {
      ASSIGN_OR_RETURN(count, Step(out));
    }
    unpacked_bytes_ += count;
    if (unpacked_bytes_ > kFreeBytes &&
        unpacked_bytes_ / kMaxRatio > packed_bytes_) {
      return absl::InvalidArgumentError(absl::StrCat(
          "unpacks to more than ", kMaxRatio, " times its ", packed_bytes_,
          " packed bytes; store it less tightly packed"));
    }
    return count;
  }

 private:
  // Calls inflate once and returns the count of unpacked bytes.
  absl::StatusOr<size_t> Step(absl::Span<char> out) {
    // zlib counts in 32 bits, so larger spans are passed in parts.
    constexpr size_t kMost = std::numeric_limits<uInt>::max();
    zlib_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(rest_.data()));
    zlib_.avail_in = static_cast<uInt>(std::min(rest_.size(), kMost));
    const size_t offered = zlib_.avail_in;
    zlib_.next_out = reinterpret_cast<Bytef*>(out.data());
    zlib_.avail_out = static_cast<uInt>(std::min(out.size(), kMost));
    const size_t room = zlib_.avail_out;
    const int code = inflate(&zlib_, Z_NO_FLUSH);
    rest_.remove_prefix(offered - zlib_.avail_in);
    if (code == Z_STREAM_END) {
      // Gzip allows several members in one file, and they follow at once.
      if (many_members_ && !rest_.empty()) {
        inflateReset(&zlib_);
      } else {
        ended_ = true;
      }
    } else if (code != Z_OK) {
      return absl::InvalidArgumentError(
          code == Z_BUF_ERROR
              ? "the packed data ends too early"
              : absl::StrCat("the packed data is broken: ",
                             zlib_.msg != nullptr ? zlib_.msg : "zlib error"));
    }
    return room - zlib_.avail_out;
  }

  z_stream zlib_ = {};
  uint64_t packed_bytes_;
  uint64_t unpacked_bytes_ = 0;
  std::string_view rest_;
  bool many_members_;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> PlainStream(std::string_view bytes) {
  return std::make_unique<Plain>(bytes);
}

std::unique_ptr<ByteStream> GzipStream(std::string_view packed) {
  return std::make_unique<Inflate>(packed, kGzipWindow);
}

std::unique_ptr<ByteStream> DeflateStream(std::string_view packed) {
  return std::make_unique<Inflate>(packed, kRawWindow);
}

std::unique_ptr<ByteStream> OpenByteStream(std::string_view bytes) {
  const bool gzip =
      bytes.size() >= 2 && bytes[0] == '\x1f' && bytes[1] == '\x8b';
  return gzip ? GzipStream(bytes) : PlainStream(bytes);
}

absl::Status ReadExactly(ByteStream& stream, absl::Span<char> out) {
  size_t filled = 0;
  while (filled < out.size()) {
    ASSIGN_OR_RETURN(const size_t count, stream.Read(out.subspan(filled)));
    if (count == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ends after ", filled, " of ", out.size(), " expected bytes"));
    }
    filled += count;
  }
  return absl::OkStatus();
}

absl::Status ExpectEnd(ByteStream& stream) {
  char extra;
  ASSIGN_OR_RETURN(const size_t count, stream.Read(absl::MakeSpan(&extra, 1)));
  if (count > 0) {
    return absl::InvalidArgumentError(
        "has more bytes than its header announces");
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
