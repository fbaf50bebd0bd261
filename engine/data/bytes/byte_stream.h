// Bytes read front to back: plain, or unpacked from gzip or raw deflate.
//
// Unpacking is guarded against decompression bombs: after the first 64 MiB a
// stream may give at most 200 times its packed size.
//
// Streams refer to bytes that the caller keeps alive. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::engine {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills the front of `out` and returns the count of bytes, which is 0 only at
  // the end or when `out` is empty. INVALID_ARGUMENT for broken packed data.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;
  // Returns the bytes that Read would give next if they lie in the caller's
  // memory as they are; nothing for packed data. There may be fewer or more
  // bytes than the stream should have, which only Read finds out.
  virtual std::optional<std::string_view> InPlace() const {
    return std::nullopt;
  }
};

// Returns a stream of the bytes as they are.
std::unique_ptr<ByteStream> PlainStream(std::string_view bytes);

// Returns a stream that unpacks gzip (RFC 1952), also several members in a row.
std::unique_ptr<ByteStream> GzipStream(std::string_view packed);

// Returns a stream that unpacks raw deflate (RFC 1951), as in zip archives.
std::unique_ptr<ByteStream> DeflateStream(std::string_view packed);

// Returns a GzipStream when the bytes begin like gzip, else a PlainStream.
std::unique_ptr<ByteStream> OpenByteStream(std::string_view bytes);

// Fills all of `out`. INVALID_ARGUMENT "ends after N of M bytes" when the
// stream is shorter.
absl::Status ReadExactly(ByteStream& stream, absl::Span<char> out);

// Returns INVALID_ARGUMENT unless the stream is at its end.
absl::Status ExpectEnd(ByteStream& stream);

}  // namespace gpupool::engine
