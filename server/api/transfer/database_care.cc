#include "server/api/transfer/database_care.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

// Bytes that a copy leaves free for the server itself.
constexpr uint64_t kLeftFree = uint64_t{64} << 20;

absl::Status Stopping() {
  return absl::UnavailableError("the server is stopping; try again");
}

template <typename T>
absl::StatusOr<T> InOurWords(absl::StatusOr<T> result) {
  if (absl::IsCancelled(result.status())) return Stopping();
  return result;
}

uint64_t SizeOf(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

// Returns OK if the disk has room for a copy. The write-ahead log counts too,
// since its pages become part of the copy.
absl::Status CheckRoom(const std::string& path) {
  std::error_code error;
  const auto space =
      std::filesystem::space(std::filesystem::path(path).parent_path(), error);
  const uint64_t bytes = SizeOf(path) + SizeOf(path + "-wal");
  if (error || space.available >= bytes + kLeftFree) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      "a copy of the database needs ", bytes, " bytes and ", kLeftFree,
      " must stay free, but the state folder's disk has ", space.available,
      "; free space there, or copy it to another disk with gpupoold --backup"));
}

}  // namespace

DatabaseCare::DatabaseCare(std::string path)
    : path_(std::move(path)), copy_path_(path_ + "-copy") {
  unlink(copy_path_.c_str());
}

absl::Status DatabaseCare::Begin(Work work) {
  absl::MutexLock lock(&mutex_);
  if (stopped_) return Stopping();
  if (busy_) {
    return absl::ResourceExhaustedError(
        "the database is being checked or copied already; try again when that "
        "has ended");
  }
  busy_ = true;
  // The former thread, which this assignment joins, has only its answer left to
  // give, so that the wait is short.
  thread_ =
      std::jthread([this, work = std::move(work)](const std::stop_token& stop) {
        const std::function<void()> answer = work(stop);
        {
          absl::MutexLock done(&mutex_);
          busy_ = false;
        }
        answer();
      });
  return absl::OkStatus();
}

void DatabaseCare::Stop() {
  std::jthread thread;
  {
    absl::MutexLock lock(&mutex_);
    stopped_ = true;
    thread = std::move(thread_);
  }
  // The destructor requests the stop and joins, without the lock, which the
  // thread needs to finish.
}

absl::Status DatabaseCare::Check(Done<CheckReport> done) {
  return Begin([this, done = std::move(done)](const std::stop_token& stop) {
    return [done, report = InOurWords(CheckDatabase(path_, stop))] {
      done(report);
    };
  });
}

absl::Status DatabaseCare::Copy(Done<BlobFile> done) {
  return Begin([this, done = std::move(done)](const std::stop_token& stop) {
    auto file =
        std::make_shared<absl::StatusOr<BlobFile>>(InOurWords(MakeCopy(stop)));
    return [done, file] { done(std::move(*file)); };
  });
}

absl::StatusOr<BlobFile> DatabaseCare::MakeCopy(
    const std::stop_token& stop) const {
  RETURN_IF_ERROR(CheckRoom(path_));
  unlink(copy_path_.c_str());
  RETURN_IF_ERROR(BackUpDatabase(path_, copy_path_, stop));
  const int fd = open(copy_path_.c_str(), O_RDONLY | O_CLOEXEC);
  // Saved, since unlink may change errno. The file lives on without a name, so
  // that nothing is left even after a crash.
  const int error = errno;
  unlink(copy_path_.c_str());
  if (fd >= 0) return BlobFile(fd);
  return absl::UnavailableError(absl::StrCat("opening the copy ", copy_path_,
                                             ": ", std::strerror(error)));
}

}  // namespace gpupool::server
