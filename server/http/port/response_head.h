// The head of an answer in HTTP/1.1: the status line and the headers.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/http/port/http_response.h"

namespace gpupool::server {

// The headers that follow from how the body is sent.
struct ResponseFrame {
  std::optional<size_t> content_length;
  bool chunked = false;
  bool keep_alive = false;
};

// Returns the head, with the empty line at its end. A header with a line end in
// its name or value is left out, because it would make another header.
std::string ResponseHead(const HttpResponse& response,
                         const ResponseFrame& frame);

// Returns the text as one chunk of a chunked body.
std::string ChunkOf(absl::string_view text);
inline constexpr absl::string_view kLastChunk = "0\r\n\r\n";

}  // namespace gpupool::server
