// A request over HTTP as routes see it. It has no trace of the library that
// reads it.
//
// Thread-safety: none; a request belongs to one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "server/auth/peer_user.h"
#include "server/http/port/client_presence.h"

namespace gpupool::server {

struct HttpHeader {
  std::string name;
  std::string value;
};

struct HttpRequest {
  // Returns the value of the first header of this name, whose case does not
  // count; empty if there is none.
  absl::string_view Header(absl::string_view name) const {
    for (const HttpHeader& header : headers) {
      if (absl::EqualsIgnoreCase(header.name, name)) return header.value;
    }
    return {};
  }

  // Returns how many headers have this name.
  size_t Count(absl::string_view name) const {
    size_t count = 0;
    for (const HttpHeader& header : headers) {
      if (absl::EqualsIgnoreCase(header.name, name)) ++count;
    }
    return count;
  }

  std::string method;  // "GET"
  std::string path;    // decoded, in UTF-8
  std::string query;   // as it was sent, without the '?'
  std::vector<HttpHeader> headers;
  std::string body;                // without chunks; perhaps compressed
  std::string remote;              // address of the client
  PeerUser user;                   // not known if the port does not ask
  std::vector<std::string> parts;  // of the path, for the gaps of the pattern
  // Null when the answer is made on the thread of the port.
  std::shared_ptr<ClientPresence> client;
};

}  // namespace gpupool::server
