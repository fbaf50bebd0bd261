#include "server/auth/call_record.h"

#include "absl/status/statusor.h"
#include "server/auth/access_gate.h"
#include "server/auth/method_roles.h"

namespace gpupool::server {

bool IsDenial(absl::StatusCode code) {
  return code == absl::StatusCode::kUnauthenticated ||
         code == absl::StatusCode::kPermissionDenied;
}

audit::Record RecordOf(AccessGate& gate, absl::string_view authorization,
                       Door door) {
  audit::Record record;
  const absl::StatusOr<Identity> identity = gate.Identify(authorization, door);
  if (!identity.ok()) {
    record.identity = "unknown";
    return record;
  }
  record.identity =
      gate.wants_tokens() && !authorization.empty() ? "token" : "local";
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
