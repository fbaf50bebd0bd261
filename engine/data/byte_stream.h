// Bytes read front to back: plain, or unpacked from gzip or raw deflate.
//
// Unpacking is guarded against bombs: past the first 64 MiB no stream may
// give more than 200 times its packed size.
//
// Streams look at bytes that the caller keeps alive. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::engine {

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Fills the front of `out` and returns how much; 0 only at the end or when
  // `out` is empty. InvalidArgument for broken packed data.
  virtual absl::StatusOr<size_t> Read(absl::Span<char> out) = 0;
};

// The bytes as they are.
std::unique_ptr<ByteStream> PlainStream(std::string_view bytes);

// Unpacks gzip (RFC 1952), several members in a row included.
std::unique_ptr<ByteStream> GzipStream(std::string_view packed);

// Unpacks raw deflate (RFC 1951), as zip archives hold it.
std::unique_ptr<ByteStream> DeflateStream(std::string_view packed);

// GzipStream when the bytes begin like gzip, PlainStream else.
std::unique_ptr<ByteStream> OpenByteStream(std::string_view bytes);

// Fills all of `out`. InvalidArgument "ends after N of M bytes" when the
// stream is shorter.
absl::Status ReadExactly(ByteStream& stream, absl::Span<char> out);

// InvalidArgument unless the stream is at its end.
absl::Status ExpectEnd(ByteStream& stream);

}  // namespace gpupool::engine
