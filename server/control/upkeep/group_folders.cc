#include "server/control/upkeep/group_folders.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "scheduler/state/state.h"
#include "server/control/calls/log.h"

namespace gpupool::server {
namespace {

using scheduler::AttemptRef;

// Other users could otherwise join the group that meets in the folder.
constexpr mode_t kOwnerOnly = 0700;

absl::Status MakeFolder(const std::string& path) {
  if (::mkdir(path.c_str(), kOwnerOnly) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(
      absl::StrCat("cannot create ", path, ": ", std::strerror(errno)));
}

bool IsNeeded(const scheduler::State& state, AttemptRef attempt) {
  if (state.IsLiveAttempt(attempt)) return true;
  for (const auto& [id, device] : state.devices()) {
    // A worker may still use the folder, although the attempt has ended for the
    // scheduler.
    if (device.stray_attempts.contains(attempt)) return true;
  }
  return false;
}

}  // namespace

std::string GroupName(AttemptRef attempt) {
  return absl::StrCat(attempt.job.value(), "-", attempt.number);
}

GroupFolders::GroupFolders(std::string root) : root_(std::move(root)) {
  std::error_code error;
  // Folders of a run that was killed are found here and removed by
  // RemoveUnneeded.
  for (const auto& entry : std::filesystem::directory_iterator(root_, error)) {
    const std::pair<std::string, std::string> name =
        absl::StrSplit(entry.path().filename().string(), '-');
    uint64_t job = 0;
    AttemptRef attempt;
    if (absl::SimpleAtoi(name.first, &job) &&
        absl::SimpleAtoi(name.second, &attempt.number)) {
      attempt.job = scheduler::JobId(job);
      attempts_.insert(attempt);
    }
  }
}

absl::StatusOr<std::string> GroupFolders::Make(AttemptRef attempt) {
  const std::string path = PathOf(attempt);
  if (absl::Status made = MakeFolder(root_); !made.ok()) return made;
  if (absl::Status made = MakeFolder(path); !made.ok()) return made;
  attempts_.insert(attempt);
  return path;
}

void GroupFolders::RemoveUnneeded(const scheduler::State& state) {
  for (auto it = attempts_.begin(); it != attempts_.end();) {
    if (IsNeeded(state, *it)) {
      ++it;
      continue;
    }
    std::error_code error;
    std::filesystem::remove_all(PathOf(*it), error);
    if (error) {
      LogWarning(absl::StrCat("event=group_folder_stays path=", PathOf(*it),
                              " error=\"", error.message(), "\""));
    }
    // A folder that cannot be removed is tried again only after a restart.
    it = attempts_.erase(it);
  }
}

std::string GroupFolders::PathOf(AttemptRef attempt) const {
  return absl::StrCat(root_, "/", GroupName(attempt));
}

}  // namespace gpupool::server
