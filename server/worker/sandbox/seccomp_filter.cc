#include "server/worker/sandbox/seccomp_filter.h"

#include <linux/netlink.h>
#include <sched.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/worker/sandbox/allowed_calls.h"
#include "server/worker/sandbox/denied_calls.h"

namespace gpupool::server {
namespace {

// Families and types of sockets are small numbers. The filter names each one
// below these bounds, and refuses the rest.
constexpr uint64_t kSocketFamilies = 64;
constexpr uint64_t kSocketTypes = 16;
constexpr uint64_t kSocketTypeMask = kSocketTypes - 1;  // without its flags
// Only a part of an argument counts for calls that take 32 bits.
constexpr uint64_t kWord = 0xffffffff;
// The flags with which posix_spawn of glibc calls clone.
constexpr uint64_t kSpawn = CLONE_VM | CLONE_VFORK | SIGCHLD;
static_assert((kSpawn & CLONE_THREAD) == 0);

scmp_arg_cmp When(unsigned argument, scmp_compare compare, uint64_t a,
                  uint64_t b = 0) {
  return {argument, compare, a, b};
}

// A filter that is built up and then loaded.
class Filter {
 public:
  // Makes a filter that does `other` for calls without a rule.
  explicit Filter(uint32_t other)
      : other_(other), context_(::seccomp_init(other), &::seccomp_release) {}

  // Adds a rule for the call, which holds if all conditions do. A call that the
  // library does not know, and a rule that does what is done anyhow, are left
  // out.
  void Add(uint32_t action, const char* call,
           const std::vector<scmp_arg_cmp>& conditions = {}) {
    const int number = ::seccomp_syscall_resolve_name(call);
    if (number == __NR_SCMP_ERROR || action == other_ || error_ != 0 ||
        context_ == nullptr) {
      return;
    }
    error_ = ::seccomp_rule_add_array(context_.get(), action, number,
                                      static_cast<unsigned>(conditions.size()),
                                      conditions.data());
    // A call that this kind of processor does not have.
    if (error_ == -EDOM) error_ = 0;
    if (error_ != 0) failed_ = call;
  }
  // Allows the call if the condition holds. Refuses it if `otherwise` holds,
  // which must be the opposite.
  void AllowWhen(const char* call, scmp_arg_cmp condition,
                 scmp_arg_cmp otherwise) {
    Add(SCMP_ACT_ALLOW, call, {condition});
    Add(SCMP_ACT_ERRNO(EPERM), call, {otherwise});
  }

  // Loads the filter, with `all_threads` for the threads that live, too.
  absl::Status Load(bool all_threads) {
    if (context_ == nullptr)
      return absl::UnavailableError("seccomp: no memory");
    if (error_ != 0) return Refused(absl::StrCat("no rule for ", failed_));
    // A program for another kind of processor could make the same calls under
    // other numbers.
    error_ = ::seccomp_attr_set(context_.get(), SCMP_FLTATR_ACT_BADARCH,
                                SCMP_ACT_KILL_PROCESS);
    // The caller decides about no_new_privs.
    if (error_ == 0) {
      error_ = ::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_NNP, 0);
    }
    if (error_ == 0 && all_threads) {
      error_ = ::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_TSYNC, 1);
    }
    // Looks a call up in a tree instead of a list of several hundred.
    if (error_ == 0) {
      ::seccomp_attr_set(context_.get(), SCMP_FLTATR_CTL_OPTIMIZE, 2);
      error_ = ::seccomp_load(context_.get());
    }
    return error_ == 0 ? absl::OkStatus() : Refused("cannot load the filter");
  }

 private:
  absl::Status Refused(const std::string& what) const {
    return absl::UnavailableError(absl::StrCat(
        "seccomp: ", what, ": ", std::generic_category().message(-error_)));
  }

  const uint32_t other_;
  int error_ = 0;
  const char* failed_ = "";
  std::unique_ptr<void, decltype(&::seccomp_release)> context_;
};

bool AllowedSocket(const SandboxOptions& options, uint64_t family,
                   uint64_t type) {
  const bool groups_of_gpus = options.groups && options.gpu;
  switch (family) {
    case AF_UNIX:  // NCCL uses datagrams between the processes of a machine
      return type == SOCK_STREAM || (groups_of_gpus && type == SOCK_DGRAM);
    case AF_INET:
    case AF_INET6:
      return options.groups && type == SOCK_STREAM;
    case AF_NETLINK:  // how Gloo and NCCL find the network's interfaces
      return options.groups && type == SOCK_RAW;
    default:
      return false;
  }
}

// Adds the rules for socket, whose family and type decide.
void AddSockets(const SandboxOptions& options, Filter& filter) {
  const uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
  filter.Add(refuse, "socket", {When(0, SCMP_CMP_GE, kSocketFamilies)});
  for (uint64_t family = 0; family < kSocketFamilies; ++family) {
    std::vector<uint64_t> allowed;
    for (uint64_t type = 0; type < kSocketTypes; ++type) {
      if (AllowedSocket(options, family, type)) allowed.push_back(type);
    }
    if (allowed.empty()) {
      filter.Add(refuse, "socket", {When(0, SCMP_CMP_EQ, family)});
      continue;
    }
    for (uint64_t type = 0; type < kSocketTypes; ++type) {
      std::vector<scmp_arg_cmp> conditions = {
          When(0, SCMP_CMP_EQ, family),
          When(1, SCMP_CMP_MASKED_EQ, kSocketTypeMask, type)};
      if (!AllowedSocket(options, family, type)) {
        filter.Add(refuse, "socket", conditions);
        continue;
      }
      if (family == AF_NETLINK) {
        conditions.push_back(When(2, SCMP_CMP_NE, NETLINK_ROUTE));
        filter.Add(refuse, "socket", conditions);
        conditions.back().op = SCMP_CMP_EQ;
      }
      filter.Add(SCMP_ACT_ALLOW, "socket", conditions);
    }
  }
  if (options.groups) {
    filter.Add(SCMP_ACT_ALLOW, "connect");
  } else {
    filter.Add(refuse, "connect");
  }
  // TCP can connect by sending, which Landlock does not check everywhere.
  const std::pair<const char*, unsigned> sends[] = {
      {"sendto", 3}, {"sendmsg", 2}, {"sendmmsg", 3}};
  for (const auto& [call, flags] : sends) {
    filter.AllowWhen(
        call, When(flags, SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, 0),
        When(flags, SCMP_CMP_MASKED_EQ, MSG_FASTOPEN, MSG_FASTOPEN));
  }
}

// Adds the rules for threads, and for programs if there are any.
void AddStarts(const SandboxOptions& options, Filter& filter) {
  const uint32_t refuse = SCMP_ACT_ERRNO(EPERM);
  // The flags of clone3 are in memory, where a filter cannot look. Without it
  // the C library uses clone.
  filter.Add(SCMP_ACT_ERRNO(ENOSYS), "clone3");
  const scmp_arg_cmp thread =
      When(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, CLONE_THREAD);
  if (options.programs.empty()) {
    filter.Add(refuse, "execve");
    filter.AllowWhen("clone", thread,
                     When(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0));
    return;
  }
  filter.Add(SCMP_ACT_ALLOW, "execve");
  filter.Add(SCMP_ACT_ALLOW, "clone", {thread});
  filter.Add(SCMP_ACT_ALLOW, "clone",
             {When(0, SCMP_CMP_MASKED_EQ, kWord, kSpawn)});
  // A rule has one condition for an argument. So there is one rule for each bit
  // in which the flags of a process can differ from those of posix_spawn.
  for (uint64_t bit = 1; bit < kWord; bit <<= 1) {
    if (bit == CLONE_THREAD) continue;
    filter.Add(
        refuse, "clone",
        {When(0, SCMP_CMP_MASKED_EQ, CLONE_THREAD | bit, ~kSpawn & bit)});
  }
}

// Adds the rules for calls whose arguments decide.
void AddConditions(const SandboxOptions& options, Filter& filter) {
  const auto self = static_cast<uint64_t>(::getpid());
  for (const char* call :
       {"kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"}) {
    filter.AllowWhen(call, When(0, SCMP_CMP_EQ, self),
                     When(0, SCMP_CMP_NE, self));
  }
  // 0 means the caller.
  filter.Add(SCMP_ACT_ALLOW, "prlimit64", {When(0, SCMP_CMP_EQ, 0)});
  filter.Add(SCMP_ACT_ALLOW, "prlimit64", {When(0, SCMP_CMP_EQ, self)});
  filter.Add(SCMP_ACT_ERRNO(EPERM), "prlimit64", {When(0, SCMP_CMP_GT, self)});
  AddSockets(options, filter);
  AddStarts(options, filter);
}

}  // namespace

absl::Status RestrictCalls(const SandboxOptions& options) {
  if (::prctl(PR_GET_SECCOMP, 0, 0, 0, 0) < 0) {
    return absl::UnimplementedError("the kernel offers no seccomp");
  }
  Filter filter(options.gpu ? SCMP_ACT_ALLOW : SCMP_ACT_ERRNO(ENOSYS));
  for (const char* call : kDeniedCalls) {
    filter.Add(SCMP_ACT_ERRNO(EPERM), call);
  }
  for (const char* call : kAllowedCalls) filter.Add(SCMP_ACT_ALLOW, call);
  AddConditions(options, filter);
  return filter.Load(/*all_threads=*/false);
}

absl::Status RestrictUnixSockets() {
  Filter filter(SCMP_ACT_ALLOW);
  filter.Add(SCMP_ACT_ERRNO(EPERM), "socket",
             {When(0, SCMP_CMP_MASKED_EQ, kWord, AF_UNIX)});
  return filter.Load(/*all_threads=*/true);
}

}  // namespace gpupool::server
