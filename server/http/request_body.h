// Private to server/http: the body of a request, read to its end with a bound.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace httplib {
class ContentReader;
struct Request;
}  // namespace httplib

namespace gpupool::server {

// Returns the body. Reads it here, since httplib puts no bound on a body
// without an announced length. Errors:
//   * ResourceExhausted: it has more than `most` bytes
//   * InvalidArgument: it ends early, takes longer than 10 s, or its encoding
//     is unknown
absl::StatusOr<std::string> ReadBody(const httplib::Request& request,
                                     const httplib::ContentReader& reader,
                                     size_t most);

// Returns the bytes that a body may have when it is read: `most`, or fewer if
// the request announces them.
uint64_t BoundOfBody(const httplib::Request& request, size_t most);

// Reads the body of a request that is refused, and forgets it, because a client
// that still sends would not see the answer. Gives up where ReadBody does.
void DiscardBody(const httplib::Request& request,
                 const httplib::ContentReader& reader, size_t most);

}  // namespace gpupool::server
