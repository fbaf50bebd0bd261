// The least role of every method, for the gRPC and the HTTP port alike. The
// table is method_roles.inc.
//
// Thread-safety: any thread. Ownership: the table lives as long as the process.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "gpupool/v1/auth.pb.h"

namespace gpupool::server {

// Returns the least role that may call "/package.Service/Method".
// ROLE_UNSPECIFIED means that everybody may; nothing means that nobody may.
std::optional<v1::Role> LeastRoleFor(absl::string_view method);

// Returns the whole table, in its order.
const std::vector<std::pair<absl::string_view, v1::Role>>& MethodRoles();

// Returns the name of a role as people write it, for example "operator".
std::string RoleName(v1::Role role);

}  // namespace gpupool::server
