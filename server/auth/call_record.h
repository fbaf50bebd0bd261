// Records of calls for the audit log.
//
// Thread-safety: any thread; nothing blocks.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "audit/audit_record.h"

namespace gpupool::server {

class AccessGate;
struct Caller;

// Metadata of calls over the in-process channel: address of the caller over
// HTTP. Nobody heeds it in calls that come over a socket.
inline constexpr char kHttpPeerKey[] = "gpupool-http-peer";
// The same for the uid of the caller, if it is known.
inline constexpr char kHttpUidKey[] = "gpupool-http-uid";

// Returns whether a call that ended so was denied.
bool IsDenial(absl::StatusCode code);

// Returns a record that says who the caller with this header `authorization`
// is.
audit::Record RecordOf(AccessGate& gate, absl::string_view authorization,
                       const Caller& caller);

// Says in the record how its call ended, and whether it was denied.
void SetOutcome(absl::StatusCode code, audit::Record* record);

}  // namespace gpupool::server
