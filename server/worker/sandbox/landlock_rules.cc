#include "server/worker/sandbox/landlock_rules.h"

#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {
namespace {

// The interface of the kernel (Documentation/userspace-api/landlock.rst). The
// headers of Debian 12 are older than the kernels on which this runs.
constexpr long kCreateRuleset = 444;
constexpr long kAddRule = 445;
constexpr long kRestrictSelf = 446;
constexpr uint32_t kAskVersion = 1;
constexpr int kPathRule = 1;
constexpr int kPortRule = 2;

constexpr uint64_t kExecute = 1 << 0;
constexpr uint64_t kWriteFile = 1 << 1;
constexpr uint64_t kReadFile = 1 << 2;
constexpr uint64_t kReadFolder = 1 << 3;
constexpr uint64_t kRemoveFolder = 1 << 4;
constexpr uint64_t kRemoveFile = 1 << 5;
constexpr uint64_t kMakeFolder = 1 << 7;
constexpr uint64_t kMakeFile = 1 << 8;
constexpr uint64_t kMakeSocket = 1 << 9;
constexpr uint64_t kMoveFile = 1 << 13;        // version 2
constexpr uint64_t kTruncate = 1 << 14;        // version 3
constexpr uint64_t kControlDevice = 1 << 15;   // version 5
constexpr uint64_t kBindTcp = 1 << 0;          // version 4
constexpr uint64_t kConnectTcp = 1 << 1;       // version 4
constexpr uint64_t kAbstractSockets = 1 << 0;  // version 6
constexpr uint64_t kSignals = 1 << 1;          // version 6

constexpr uint64_t kRead = kReadFile | kReadFolder;
constexpr uint64_t kWrite = kRead | kWriteFile | kRemoveFolder | kRemoveFile |
                            kMakeFolder | kMakeFile | kMakeSocket | kMoveFile |
                            kTruncate;
// Rights that files have, too. The kernel refuses others in a rule on a file.
constexpr uint64_t kOfFiles =
    kExecute | kReadFile | kWriteFile | kTruncate | kControlDevice;

struct RulesetAttributes {
  uint64_t files;
  uint64_t ports;   // version 4
  uint64_t scoped;  // version 6
};
struct PathAttributes {
  uint64_t rights;
  int32_t folder;
} __attribute__((packed));
struct PortAttributes {
  uint64_t rights;
  uint64_t port;
};

// Rights that a version of Landlock can enforce.
struct Abilities {
  uint64_t files = 0;
  uint64_t ports = 0;
  uint64_t scoped = 0;
  size_t bytes = 0;  // of RulesetAttributes that the version knows
};

Abilities AbilitiesOf(long version, const SandboxOptions& options) {
  Abilities abilities;
  abilities.files = (uint64_t{1} << 14) - 1;
  if (version >= 3) abilities.files |= kTruncate;
  if (version >= 5) abilities.files |= kControlDevice;
  if (version >= 4) abilities.ports = kBindTcp | kConnectTcp;
  if (version >= 6) {
    abilities.scoped = kSignals;
    if (!(options.gpu && options.groups)) abilities.scoped |= kAbstractSockets;
  }
  abilities.bytes = version >= 6   ? sizeof(RulesetAttributes)
                    : version >= 4 ? offsetof(RulesetAttributes, scoped)
                                   : offsetof(RulesetAttributes, ports);
  return abilities;
}

absl::Status Refused(const std::string& what) {
  return absl::UnavailableError(absl::StrCat(
      "Landlock: ", what, ": ", std::generic_category().message(errno)));
}

// A set of rules that is built up and then enforced.
class Ruleset {
 public:
  static absl::StatusOr<Ruleset> Create(const Abilities& abilities) {
    const RulesetAttributes attributes = {abilities.files, abilities.ports,
                                          abilities.scoped};
    UniqueFd set(static_cast<int>(
        ::syscall(kCreateRuleset, &attributes, abilities.bytes, 0)));
    if (!set.valid()) return Refused("cannot make a set of rules");
    return Ruleset(std::move(set), abilities);
  }

  // Allows what the kernel can check of `rights` on `path` and below it. Does
  // nothing if the path does not exist.
  absl::Status Allow(const std::string& path, uint64_t rights) {
    const UniqueFd opened(::open(path.c_str(), O_PATH | O_CLOEXEC));
    struct stat facts = {};
    if (!opened.valid() || ::fstat(opened.get(), &facts) != 0) {
      return absl::OkStatus();
    }
    rights &= abilities_.files;
    // Programs are named one by one.
    rights &= S_ISDIR(facts.st_mode) ? ~kExecute : kOfFiles;
    if (rights == 0) return absl::OkStatus();
    const PathAttributes rule = {rights, opened.get()};
    if (::syscall(kAddRule, set_.get(), kPathRule, &rule, 0) != 0) {
      return Refused(absl::StrCat("no rule for ", path));
    }
    return absl::OkStatus();
  }

  absl::Status AllowPort(uint64_t port, uint64_t rights) {
    rights &= abilities_.ports;
    if (rights == 0) return absl::OkStatus();
    const PortAttributes rule = {rights, port};
    if (::syscall(kAddRule, set_.get(), kPortRule, &rule, 0) != 0) {
      return Refused(absl::StrCat("no rule for port ", port));
    }
    return absl::OkStatus();
  }

  absl::Status Enforce() {
    if (::syscall(kRestrictSelf, set_.get(), 0) != 0) {
      return Refused("cannot enforce the rules");
    }
    return absl::OkStatus();
  }

 private:
  Ruleset(UniqueFd set, const Abilities& abilities)
      : set_(std::move(set)), abilities_(abilities) {}

  UniqueFd set_;
  Abilities abilities_;
};

// Stores the name of the dynamic loader that the program names, which is the
// first of the objects.
int StoreLoader(dl_phdr_info* object, size_t /*bytes*/, void* loader) {
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    if (header.p_type != PT_INTERP) continue;
    *static_cast<std::string*>(loader) =
        reinterpret_cast<const char*>(object->dlpi_addr + header.p_vaddr);
  }
  return 1;  // no further object
}

// Allows the programs and this program's loader, with which the kernel starts
// them.
absl::Status AllowPrograms(const std::vector<std::string>& programs,
                           Ruleset& rules) {
  if (programs.empty()) return absl::OkStatus();
  std::string loader;
  ::dl_iterate_phdr(&StoreLoader, &loader);
  RETURN_IF_ERROR(rules.Allow(loader, kExecute | kReadFile));
  for (const std::string& path : programs) {
    RETURN_IF_ERROR(rules.Allow(path, kExecute | kReadFile));
  }
  return absl::OkStatus();
}

// Allows the ports that the ranks of a group listen on. The kernel chooses
// these when they bind to port 0. There is one rule for each port: some 28,000
// by default.
absl::Status AllowGroupPorts(Ruleset& rules) {
  uint64_t first = 32768;
  uint64_t last = 60999;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  RETURN_IF_ERROR(rules.AllowPort(0, kBindTcp));
  for (uint64_t port = first; port <= last; ++port) {
    RETURN_IF_ERROR(rules.AllowPort(port, kConnectTcp));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RestrictFiles(const SandboxOptions& options) {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  if (version < 2) {
    return absl::UnimplementedError(
        version < 0 ? absl::StrCat("the kernel offers no Landlock (",
                                   std::generic_category().message(errno), ")")
                    : std::string("the kernel's Landlock is too old; Linux "
                                  "5.19 has the first that is enough"));
  }
  ASSIGN_OR_RETURN(Ruleset rules,
                   Ruleset::Create(AbilitiesOf(version, options)));
  for (const std::string& path : options.readable) {
    RETURN_IF_ERROR(rules.Allow(path, kRead));
  }
  for (const std::string& path : options.writable) {
    RETURN_IF_ERROR(rules.Allow(path, kWrite));
  }
  for (const std::string& path : options.devices) {
    RETURN_IF_ERROR(
        rules.Allow(path, kRead | kWriteFile | kTruncate | kControlDevice));
  }
  RETURN_IF_ERROR(AllowPrograms(options.programs, rules));
  if (options.groups && version >= 4) RETURN_IF_ERROR(AllowGroupPorts(rules));
  return rules.Enforce();
}

}  // namespace gpupool::server
