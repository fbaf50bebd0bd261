// One record of the audit log and its line:
//
//   line   = JSON object in ASCII without line breaks, at most kMostLineBytes
//   object = "sequence" number, "time" UTC with microseconds, "event" word,
//            then the texts of the record that are not empty,
//            "previous": SHA-256 of the line before, in 64 hex digits
//
// The digest of a line is that of its bytes without the line break. The first
// line of all has kNoDigest as its "previous".
//
// Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::audit {

// No line is longer, since texts are cut.
inline constexpr size_t kMostLineBytes = 32 << 10;

inline constexpr absl::string_view kNoDigest =
    "0000000000000000000000000000000000000000000000000000000000000000";

struct Record {
  absl::Time time = absl::InfinitePast();  // infinite: set when it is noted
  // One of these words:
  //   * "call": a call that changes something has ended
  //   * "denied": a call was denied
  //   * "denied-more": further calls were denied; `note` says how many
  //   * "lost": records were lost; `note` says how many
  //   * "mended": a torn line was removed
  //   * "start", "stop": of the server
  std::string event;
  // "token": a caller with a token. "local": a caller who needs none and sends
  // none. "unknown": another caller without a token that works.
  std::string identity;
  uint64_t token = 0;  // id of the token; 0: none
  std::string name;    // of the token
  std::string tenant;
  std::string role;
  std::string peer;  // address of the caller, as "ipv4:127.0.0.1:4242"
  std::string uid;   // of a caller over TCP on this machine, if it is known
  std::string method;
  std::string object;      // as "model=digits version=3"
  std::string request_id;  // chosen by the client
  std::string outcome;     // name of the status code
  std::string note;
};

// Place of a record in the chain.
struct Place {
  uint64_t sequence = 0;  // 1 is the first of all
  std::string previous;
};

// Returns the line of a record, without the line break. Long texts are cut, and
// bytes that are not UTF-8 are replaced.
std::string LineOf(const Record& record, const Place& place);

// Returns the place that a line names. InvalidArgument if the line has another
// form.
absl::StatusOr<Place> PlaceIn(absl::string_view line);

// Returns the digest of a line.
std::string DigestOfLine(absl::string_view line);

}  // namespace gpupool::audit
