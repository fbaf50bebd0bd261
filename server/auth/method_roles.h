// The least role of every method, for the gRPC and the HTTP port alike, and
// what the audit log keeps of its calls. The table is method_roles.inc.
//
// Thread-safety: any thread. Ownership: the table lives as long as the process.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gpupool/v1/auth.pb.h"

namespace gpupool::server {

// Returns the least role that may call "/package.Service/Method".
// ROLE_UNSPECIFIED means that everybody may; nothing means that nobody may.
std::optional<v1::Role> LeastRoleFor(absl::string_view method);

// The effect of a method, by which the audit log chooses its calls.
enum class Effect { kReads, kChanges, kInfers };

// Returns the effect of a method. Nothing for a method that is not in the
// table.
std::optional<Effect> EffectOf(absl::string_view method);

// A row of the table.
struct MethodRole {
  absl::string_view method;
  v1::Role role = v1::ROLE_UNSPECIFIED;
  Effect effect = Effect::kReads;
};

// Returns the whole table, in its order.
const std::vector<MethodRole>& MethodRoles();

// Returns the name of a role as people write it, for example "operator".
std::string RoleName(v1::Role role);

}  // namespace gpupool::server
