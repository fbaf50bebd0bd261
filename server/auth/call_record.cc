#include "server/auth/call_record.h"

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/auth/access_gate.h"
#include "server/auth/method_roles.h"

namespace gpupool::server {

bool IsDenial(absl::StatusCode code) {
  return code == absl::StatusCode::kUnauthenticated ||
         code == absl::StatusCode::kPermissionDenied;
}

audit::Record RecordOf(AccessGate& gate, absl::string_view authorization,
                       const Caller& caller) {
  audit::Record record;
  record.peer = std::string(caller.peer);
  if (caller.user.uid.has_value()) {
    record.uid = absl::StrCat(*caller.user.uid);
  }
  const absl::StatusOr<Identity> identity =
      gate.Identify(authorization, caller);
  if (!identity.ok()) {
    record.identity = "unknown";
    return record;
  }
  record.identity = identity->token != 0 ? "token" : "local";
  record.token = identity->token;
  record.name = identity->name;
  record.tenant = identity->tenant;
  record.role = RoleName(identity->role);
  return record;
}

void SetOutcome(absl::StatusCode code, audit::Record* record) {
  record->event = IsDenial(code) ? "denied" : "call";
  record->outcome = absl::StatusCodeToString(code);
}

}  // namespace gpupool::server
