#include "server/worker/sandbox/sandbox.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "server/worker/sandbox/landlock_rules.h"
#include "server/worker/sandbox/seccomp_filter.h"

namespace gpupool::server {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitizedBuild = true;
#else
constexpr bool kSanitizedBuild = false;
#endif

// Returns the capabilities that a worker keeps if it has them.
//   * that by which root opens files of other users: the state folder may
//   belong
//     to one
//   * with a GPU those that NVIDIA's driver and its counters may ask for
uint64_t KeptCapabilities(bool gpu) {
  uint64_t kept = uint64_t{1} << CAP_DAC_OVERRIDE;
  if (!gpu) return kept;
  for (const int capability : {CAP_SYS_ADMIN, CAP_PERFMON, CAP_IPC_LOCK,
                               CAP_SYS_NICE, CAP_SYS_RESOURCE, CAP_SYS_RAWIO}) {
    kept |= uint64_t{1} << capability;
  }
  return kept;
}

// Gives up the other capabilities. Does nothing for users other than root.
absl::Status DropCapabilities(bool gpu) {
  __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct held[2] = {};
  bool done = ::syscall(SYS_capget, &header, held) == 0;
  if (done) {
    const uint64_t kept = KeptCapabilities(gpu);
    for (__user_cap_data_struct& half : held) {
      const auto mask =
          static_cast<uint32_t>(&half == held ? kept : kept >> 32);
      half = {half.effective & mask, half.permitted & mask, 0};
    }
    done = ::syscall(SYS_capset, &header, held) == 0;
  }
  if (done) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("capabilities: ", std::generic_category().message(errno)));
}

// Gives up privileges, and the right of others to look into this process.
absl::Status DropPrivileges(bool gpu) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) {
    return absl::UnavailableError(
        absl::StrCat("no_new_privs: ", std::generic_category().message(errno)));
  }
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  return DropCapabilities(gpu);
}

void Note(const char* layer, const absl::Status& status,
          SandboxReport* report) {
  if (status.ok()) {
    report->layers.emplace_back(layer);
  } else {
    report->missing.push_back(absl::StrCat(layer, ": ", status.message()));
  }
}

}  // namespace

SandboxReport InstallSandbox(const SandboxOptions& options) {
  SandboxReport report;
  if (kSanitizedBuild) {
    report.missing.emplace_back("all: this build has a sanitizer");
    return report;
  }
  Note("privileges", DropPrivileges(options.gpu), &report);
  // The filter of calls comes last, since it ends what the others need.
  const absl::Status files = RestrictFiles(options);
  Note("files", files, &report);
  SandboxOptions calls = options;
  if (!files.ok()) calls.programs.clear();
  Note("calls", RestrictCalls(calls), &report);
  return report;
}

absl::Status ForbidUnixSockets(const SandboxOptions& options) {
  if (kSanitizedBuild || options.gpu) return absl::OkStatus();
  return RestrictUnixSockets();
}

}  // namespace gpupool::server
