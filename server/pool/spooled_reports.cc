#include "server/pool/spooled_reports.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "server/ipc/spool_records.h"
#include "server/ipc/unique_fd.h"
#include "server/ipc/worker_paths.h"

namespace gpupool::server {
namespace {

absl::Status Unreadable(const std::string& path, int error) {
  return absl::UnavailableError(absl::StrCat(
      "cannot read ", path, " (errno ", error, "); let the daemon's user read",
      " it, or remove it if its reports are of no use"));
}

// Returns the bytes of the file; none if there is no such file.
absl::StatusOr<std::string> ReadSpool(const std::string& path) {
  std::string bytes;
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    if (errno == ENOENT || errno == ENOTDIR) return bytes;
    return Unreadable(path, errno);
  }
  std::array<char, 65536> chunk;
  while (true) {
    const ssize_t count = ::read(file.get(), chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Unreadable(path, errno);
    if (count == 0) return bytes;
    bytes.append(chunk.data(), static_cast<size_t>(count));
  }
}

}  // namespace

absl::StatusOr<std::vector<worker::v1::Report>> ReadSpooledReports(
    const std::string& state_dir) {
  std::vector<worker::v1::Report> reports;
  const std::string workers = WorkersFolderIn(state_dir);
  std::error_code error;
  std::filesystem::directory_iterator folder(workers, error);
  if (error == std::errc::no_such_file_or_directory) return reports;
  for (; !error && folder != std::filesystem::directory_iterator();
       folder.increment(error)) {
    ASSIGN_OR_RETURN(const std::string bytes,
                     ReadSpool(SpoolIn(folder->path().string())));
    absl::string_view rest = bytes;
    worker::v1::Report report;
    while (TakeSpoolRecord(rest, &report)) {
      if (!report.has_progress()) reports.push_back(std::move(report));
    }
  }
  if (error) return Unreadable(workers, error.value());
  return reports;
}

}  // namespace gpupool::server
