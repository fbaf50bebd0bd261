#include "client/files/event_file.h"

#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace gpupool::client {
namespace {

constexpr char kPrefix[] = "events.out.tfevents.";
// TensorBoard takes every file whose name has this.
constexpr char kMark[] = "tfevents";
// Files of one second get names of the next ones.
constexpr int kNames = 100;

absl::Status CannotWriteEvents(const std::string& folder, int error) {
  return absl::Status(
      absl::ErrnoToStatusCode(error),
      absl::StrCat("cannot write events to the folder ", folder, ": ",
                   std::generic_category().message(error),
                   "; name a folder that you may write, or a new one"));
}

std::string HostName() {
  std::array<char, 256> name = {};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == 0) {
    return "localhost";
  }
  return name.data();
}

// Refuses a folder that has events of anything but the job.
absl::Status CheckForOtherRuns(const std::string& folder, uint64_t job) {
  const std::string suffix = absl::StrCat(".", job);
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!absl::StrContains(name, kMark)) continue;
    if (absl::StartsWith(name, kPrefix) && absl::EndsWith(name, suffix)) {
      continue;
    }
    return absl::FailedPreconditionError(absl::StrCat(
        "the folder ", folder, " has events of another run (", name,
        "), and TensorBoard draws a folder as one run; name a folder for this "
        "job, such as ",
        (std::filesystem::path(folder) / absl::StrCat("job-", job)).string()));
  }
  return error ? CannotWriteEvents(folder, error.value()) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<EventFile> EventFile::Create(const std::string& folder,
                                            uint64_t job) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return CannotWriteEvents(folder, error.value());
  absl::Status status = CheckForOtherRuns(folder, job);
  if (!status.ok()) return status;
  const absl::Time now = absl::Now();
  const int64_t seconds = absl::ToUnixSeconds(now);
  std::string path;
  Handle handle(nullptr, &std::fclose);
  // TensorBoard reads files in the order of their names, so a later name is of
  // a later file.
  for (int i = 0; handle == nullptr && i < kNames; ++i) {
    path = (std::filesystem::path(folder) /
            absl::StrCat(kPrefix, seconds + i, ".", HostName(), ".", job))
               .string();
    handle.reset(std::fopen(path.c_str(), "wbx"));
    if (handle == nullptr && errno != EEXIST) break;
  }
  if (handle == nullptr) return CannotWriteEvents(folder, errno);
  EventFile file(std::move(path), std::move(handle));
  status = file.Write(VersionRecord(now));
  if (!status.ok()) {
    std::remove(file.path().c_str());
    return status;
  }
  return file;
}

absl::Status EventFile::Append(const ScalarEvent& event) {
  // The first numbers replace those that earlier files of the job have of their
  // steps.
  if (!std::exchange(begun_, true) || event.rewinds) {
    absl::Status status = Write(RewindRecord(event.time, event.step));
    if (!status.ok()) return status;
  }
  return Write(ScalarsRecord(event));
}

absl::Status EventFile::Write(absl::string_view record) {
  if (std::fwrite(record.data(), 1, record.size(), handle_.get()) ==
          record.size() &&
      std::fflush(handle_.get()) == 0) {
    return absl::OkStatus();
  }
  return absl::ErrnoToStatus(errno, absl::StrCat("cannot write ", path_));
}

}  // namespace gpupool::client
