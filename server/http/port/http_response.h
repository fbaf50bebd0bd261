// An answer over HTTP as routes make it.
//
// Thread-safety: none, but for BodyWriter, which says its own.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "server/http/port/http_request.h"

namespace gpupool::server {

// Sends a body that is written bit by bit.
//
// Thread-safety: one thread.
class BodyWriter {
 public:
  virtual ~BodyWriter() = default;

  // Sends the text. Blocks while the client has not taken the text before the
  // last one. Returns false when the client is gone.
  virtual bool Write(std::string text) = 0;

  // Returns false when the client is gone.
  virtual bool is_open() const = 0;
};

struct HttpResponse {
  void Set(std::string name, std::string value) {
    headers.push_back({std::move(name), std::move(value)});
  }

  int status = 200;
  std::vector<HttpHeader> headers;  // besides Content-Length and Connection
  std::string body;
  // Writes the body in place of `body`, if it is set. Called once, on the
  // thread that made the answer; it may block.
  std::function<void(BodyWriter&)> stream;
};

// Returns an answer with a body in JSON.
inline HttpResponse JsonAnswer(int status, std::string body) {
  HttpResponse response;
  response.status = status;
  response.Set("Content-Type", "application/json");
  response.body = std::move(body);
  return response;
}

// Makes the answer for an error. The HTTP status follows from the code if it is
// 0.
using ErrorWriter =
    std::function<HttpResponse(const absl::Status& error, int http_status)>;

}  // namespace gpupool::server
