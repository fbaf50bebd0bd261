#include "server/auth/method_roles.h"

#include "absl/container/flat_hash_map.h"
#include "absl/strings/ascii.h"

namespace gpupool::server {
namespace {

// Returns the row of a method; null if it has none.
const MethodRole* FindMethod(absl::string_view method) {
  static const auto& rows = *[] {
    auto* by_name = new absl::flat_hash_map<absl::string_view, MethodRole>();
    for (const MethodRole& row : MethodRoles()) {
      by_name->emplace(row.method, row);
    }
    return by_name;
  }();
  const auto found = rows.find(method);
  return found == rows.end() ? nullptr : &found->second;
}

}  // namespace

const std::vector<MethodRole>& MethodRoles() {
  // Never destroyed, so that calls may read it while the process ends.
  static const auto& roles = *new std::vector<MethodRole>{
#define METHOD(name, role, effect) {name, v1::role, Effect::effect},
#include "server/auth/method_roles.inc"
#undef METHOD
  };
  return roles;
}

std::optional<v1::Role> LeastRoleFor(absl::string_view method) {
  const MethodRole* row = FindMethod(method);
  if (row == nullptr) return std::nullopt;
  return row->role;
}

std::optional<Effect> EffectOf(absl::string_view method) {
  const MethodRole* row = FindMethod(method);
  if (row == nullptr) return std::nullopt;
  return row->effect;
}

std::string RoleName(v1::Role role) {
  return absl::AsciiStrToLower(v1::Role_Name(role));
}

}  // namespace gpupool::server
