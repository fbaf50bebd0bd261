// Reads one request from the bytes of a connection: HTTP/1.0 and HTTP/1.1, by
// RFC 9112. It refuses what could be read in two ways, since a proxy before the
// server may read it in the other one.
//
// Thread-safety: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "server/http/port/http_request.h"

namespace gpupool::server {

class RequestParser {
 public:
  struct Limits {
    size_t header_bytes = 0;  // of the request line and all headers
    size_t target_bytes = 0;  // of the target in the request line
  };
  // The fault of a request, and its HTTP status.
  struct Failure {
    int status = 400;
    std::string text;
  };

  explicit RequestParser(const Limits& limits);
  ~RequestParser();

  // Reads from the front of the bytes and returns how many it needs no more.
  // Pass the others again, with the bytes that follow them. Stops behind the
  // headers: call ReadBody before the next call. Call it no more when the
  // request is done or has failed.
  size_t Feed(absl::string_view bytes);

  // Says how to read the body: at most `most` bytes without the chunks. They go
  // into the request if `keep` is true, and are dropped otherwise.
  void ReadBody(size_t most, bool keep);

  // Returns the request: its headers when header_done(), its body when done().
  HttpRequest& request();
  bool header_done() const;
  bool done() const;
  const std::optional<Failure>& failure() const;

  // Returns whether a body follows the headers. Call it between header_done()
  // and ReadBody.
  bool has_body() const;
  // Returns the length that the headers give; nothing for a body in chunks.
  // Call it, and the functions below, when header_done().
  std::optional<uint64_t> content_length() const;
  // Returns whether the client wants to send another request.
  bool keep_alive() const;
  bool is_http_1_0() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

// Returns the text of the error for a body of more than `most` bytes.
std::string BodyTooLarge(size_t most);

}  // namespace gpupool::server
