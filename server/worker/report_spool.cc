#include "server/worker/report_spool.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "server/ipc/spool_records.h"
#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using worker::v1::Report;

absl::Status WriteAll(int fd, const std::string& bytes) {
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t count =
        ::write(fd, bytes.data() + written, bytes.size() - written);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot write the report spool (errno ", errno, ")"));
    }
    written += static_cast<size_t>(count);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReadAll(int fd) {
  std::string bytes;
  std::array<char, 65536> chunk;
  while (true) {
    const ssize_t count = ::read(fd, chunk.data(), chunk.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot read the report spool (errno ", errno, ")"));
    }
    if (count == 0) return bytes;
    bytes.append(chunk.data(), static_cast<size_t>(count));
  }
}

// Syncs the folder: a file's name is durable only when its folder is.
bool SyncFolderOf(const std::string& path) {
  const std::string folder = path.substr(0, path.rfind('/') + 1);
  const UniqueFd file(::open(folder.empty() ? "." : folder.c_str(),
                             O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return file.valid() && ::fsync(file.get()) == 0;
}

}  // namespace

absl::StatusOr<ReportSpool> ReportSpool::Open(const std::string& path,
                                              uint64_t now_micros) {
  UniqueFd file(
      ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!file.valid()) {
    return absl::UnavailableError(
        absl::StrCat("cannot open ", path, " (errno ", errno, ")"));
  }
  if (!SyncFolderOf(path)) {
    return absl::UnavailableError(absl::StrCat("cannot sync the folder of ",
                                               path, " (errno ", errno, ")"));
  }
  ReportSpool spool(path, std::move(file), now_micros);
  RETURN_IF_ERROR(spool.Load());
  return spool;
}

// Reads the records up to the first damaged one and cuts the file there, so
// that new records follow a whole one.
absl::Status ReportSpool::Load() {
  ASSIGN_OR_RETURN(const std::string bytes, ReadAll(file_.get()));
  absl::string_view rest = bytes;
  size_t end = 0;
  Report report;
  while (TakeSpoolRecord(rest, &report)) {
    end = bytes.size() - rest.size();
    // The numbers go on after those on disk. The daemon takes a lower one for a
    // repeated report.
    next_sequence_ = std::max(next_sequence_, report.sequence() + 1);
    progress_count_ += report.has_progress();
    reports_.push_back(std::move(report));
  }
  file_bytes_ = end;
  if (end == bytes.size()) return absl::OkStatus();
  spdlog::warn("report spool ends in a damaged record path={} dropped_bytes={}",
               path_, bytes.size() - end);
  if (::ftruncate(file_.get(), static_cast<off_t>(end)) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot truncate ", path_, " (errno ", errno, ")"));
  }
  return absl::OkStatus();
}

absl::Status ReportSpool::Add(Report* report) {
  report->set_sequence(next_sequence_++);
  const bool progress = report->has_progress();
  const absl::Status written = Append(*report, /*durable=*/!progress);
  reports_.push_back(*report);
  progress_count_ += progress;
  if (progress_count_ > kMaxProgress) ThinProgress();
  // Acknowledged reports stay in the file until it is written anew.
  if (file_bytes_ > kCompactBytes) Compact();
  return written;
}

// Appends the record. Only reports that are more than progress wait for the
// disk.
absl::Status ReportSpool::Append(const Report& report, bool durable) {
  const std::string record = SpoolRecord(report);
  absl::Status status = WriteAll(file_.get(), record);
  if (!status.ok()) {
    // Half a record would hide all records behind it.
    if (::ftruncate(file_.get(), static_cast<off_t>(file_bytes_)) != 0) {
      spdlog::error("cannot truncate the report spool errno={}", errno);
    }
    return status;
  }
  file_bytes_ += record.size();
  if (durable && ::fdatasync(file_.get()) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot sync the report spool (errno ", errno, ")"));
  }
  return absl::OkStatus();
}

void ReportSpool::Acknowledge(uint64_t through_sequence) {
  while (!reports_.empty() && reports_.front().sequence() <= through_sequence) {
    progress_count_ -= reports_.front().has_progress();
    reports_.pop_front();
  }
  // The spool may have been lost. The daemon still knows which numbers were
  // used.
  next_sequence_ = std::max(next_sequence_, through_sequence + 1);
  if (reports_.empty() && file_bytes_ > 0 && ::ftruncate(file_.get(), 0) == 0) {
    file_bytes_ = 0;
  }
}

// Drops every second progress report, oldest first.
void ReportSpool::ThinProgress() {
  std::deque<Report> kept;
  bool drop = false;
  for (Report& report : reports_) {
    const bool progress = report.has_progress();
    if (progress) drop = !drop;
    if (progress && drop) {
      --progress_count_;
      continue;
    }
    kept.push_back(std::move(report));
  }
  reports_ = std::move(kept);
  Compact();
}

// Writes the kept reports to a new file and renames it over the old one. If
// that fails the old file stays: it holds more than needed, never less.
void ReportSpool::Compact() {
  const std::string temporary = path_ + ".new";
  UniqueFd file(::open(temporary.c_str(),
                       O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC,
                       0600));
  std::string bytes;
  for (const Report& report : reports_) bytes += SpoolRecord(report);
  if (!file.valid() || !WriteAll(file.get(), bytes).ok() ||
      ::fdatasync(file.get()) != 0 ||
      ::rename(temporary.c_str(), path_.c_str()) != 0) {
    spdlog::error("cannot compact the report spool path={} errno={}", path_,
                  errno);
    return;
  }
  file_ = std::move(file);
  file_bytes_ = bytes.size();
  // Not fatal: until the folder is synced a power cut brings back the old file,
  // which holds all of this.
  if (!SyncFolderOf(path_)) {
    spdlog::error("cannot sync the folder of {} errno={}", path_, errno);
  }
}

}  // namespace gpupool::server
