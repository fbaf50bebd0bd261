#include "server/auth/method_roles.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"

namespace gpupool::server {

const std::vector<std::pair<absl::string_view, v1::Role>>& MethodRoles() {
  // Never destroyed, so that calls may read it while the process ends.
  static const auto& roles =
      *new std::vector<std::pair<absl::string_view, v1::Role>>{
#define METHOD(name, role) {name, v1::role},
#include "server/auth/method_roles.inc"
#undef METHOD
      };
  return roles;
}

std::optional<v1::Role> LeastRoleFor(absl::string_view method) {
  static const auto& by_name =
      *new absl::flat_hash_map<absl::string_view, v1::Role>(
          MethodRoles().begin(), MethodRoles().end());
  const auto found = by_name.find(method);
  if (found == by_name.end()) return std::nullopt;
  return found->second;
}

std::string RoleName(v1::Role role) {
  return absl::AsciiStrToLower(v1::Role_Name(role));
}

}  // namespace gpupool::server
