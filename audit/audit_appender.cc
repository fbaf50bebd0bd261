#include "audit/audit_appender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "audit/audit_folder.h"

namespace gpupool::audit {
namespace {

constexpr size_t kQuotedBytes = 80;  // of a torn line
// Bytes without a line break at the end of a file that are removed. A server
// has never more than its queue in one write, so more of them are damage.
constexpr uint64_t kMostTornBytes = uint64_t{256} << 20;
constexpr uint64_t kSearchBytes = 64 << 10;  // read at once

constexpr char kRemedy[] =
    "move its folder away, so that a new chain begins, or start with "
    "--audit off";

absl::Status Refused(absl::string_view what, const std::string& path) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path, ": ", std::strerror(errno)));
}

// Makes the folder, for its owner alone.
absl::Status MakeFolder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0 || errno == EEXIST) {
    return absl::OkStatus();
  }
  return Refused("make the folder", folder);
}

// Makes a new entry of the folder last.
absl::Status SyncFolder(const std::string& folder) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return Refused("open", folder);
  const bool synced = ::fsync(fd) == 0;
  const absl::Status status =
      synced ? absl::OkStatus() : Refused("sync", folder);
  ::close(fd);
  return status;
}

// The last whole line of a file.
struct LastLine {
  bool found = false;
  std::string text;  // without the line break
  uint64_t end = 0;  // offset behind the line break
};

// Returns `size` bytes of a file from `offset` on, fewer if it ends before.
absl::StatusOr<std::string> ReadAt(int fd, const std::string& path,
                                   uint64_t offset, uint64_t size) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count = ::pread(fd, bytes.data() + done, bytes.size() - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return Refused("read", path);
    if (count == 0) break;
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

// Returns the offset behind the last line break of a file of `size` bytes; 0 if
// it has none. DataLoss if its last kMostTornBytes have none.
absl::StatusOr<uint64_t> EndOfLastLine(int fd, const std::string& path,
                                       uint64_t size) {
  const uint64_t least = size - std::min(size, kMostTornBytes);
  for (uint64_t end = size; end > least;) {
    const uint64_t begin = end - std::min(end - least, kSearchBytes);
    const absl::StatusOr<std::string> bytes =
        ReadAt(fd, path, begin, end - begin);
    if (!bytes.ok()) return bytes.status();
    const size_t found = bytes->rfind('\n');
    if (found != std::string::npos) return begin + found + 1;
    end = begin;
  }
  if (least == 0) return uint64_t{0};
  return absl::DataLossError(absl::StrCat("the audit log is damaged: the last ",
                                          kMostTornBytes, " bytes of ", path,
                                          " have no line break; ", kRemedy));
}

// Returns the last whole line of a file of `size` bytes.
absl::StatusOr<LastLine> ReadLastLine(int fd, const std::string& path,
                                      uint64_t size) {
  const absl::StatusOr<uint64_t> end = EndOfLastLine(fd, path, size);
  if (!end.ok()) return end.status();
  if (*end == 0) return LastLine{};
  // A line and the line break before it. A longer line is cut, and no record.
  const uint64_t begin = *end - std::min<uint64_t>(*end, kMostLineBytes + 2);
  absl::StatusOr<std::string> bytes = ReadAt(fd, path, begin, *end - begin);
  if (!bytes.ok()) return bytes.status();
  if (!bytes->empty()) bytes->pop_back();
  const size_t before = bytes->rfind('\n');
  return LastLine{
      .found = true,
      .text = before == std::string::npos ? *bytes : bytes->substr(before + 1),
      .end = *end};
}

// Returns the place behind a line.
absl::StatusOr<Place> PlaceBehind(const std::string& line,
                                  const std::string& path) {
  const absl::StatusOr<Place> place = PlaceIn(line);
  if (place.ok()) return Place{place->sequence + 1, DigestOfLine(line)};
  return absl::DataLossError(
      absl::StrCat("the last record of the audit log is damaged: ", path, ": ",
                   place.status().message(), "; ", kRemedy));
}

// Returns the sequence number of the first record; that of no record if the
// first line is none, which the check of the log finds.
absl::StatusOr<uint64_t> FirstSequence(int fd, const std::string& path) {
  const absl::StatusOr<std::string> bytes =
      ReadAt(fd, path, 0, kMostLineBytes + 1);
  if (!bytes.ok()) return bytes.status();
  const absl::StatusOr<Place> place =
      PlaceIn(absl::string_view(*bytes).substr(0, bytes->find('\n')));
  return place.ok() ? place->sequence : std::numeric_limits<uint64_t>::max();
}

}  // namespace

AuditAppender::AuditAppender(AppenderOptions options)
    : options_(std::move(options)),
      place_{.sequence = 1, .previous = std::string(kNoDigest)} {}

AuditAppender::~AuditAppender() {
  if (file_ >= 0) ::close(file_);
}

absl::StatusOr<std::unique_ptr<AuditAppender>> AuditAppender::Open(
    AppenderOptions options) {
  absl::Status opened = MakeFolder(options.folder);
  if (!opened.ok()) return opened;
  auto appender = absl::WrapUnique(new AuditAppender(std::move(options)));
  opened = appender->OpenNewest();
  if (!opened.ok()) return opened;
  return appender;
}

absl::Status AuditAppender::OpenNewest() {
  const auto files = FilesIn(options_.folder);
  if (!files.ok()) return files.status();
  if (files->empty()) return BeginFile(1);
  const AuditFile& newest = files->back();
  const absl::StatusOr<int> opened = OpenFile(newest.path, O_RDWR | O_APPEND);
  if (!opened.ok()) return opened.status();
  file_ = *opened;
  if (::fchmod(file_, 0600) != 0) return Refused("protect", newest.path);
  number_ = newest.number;
  bool empty = false;
  const absl::Status taken = TakeUp(newest.path, &empty);
  if (!taken.ok() || !empty) return taken;
  return FollowFileBefore(newest.number);
}

absl::Status AuditAppender::FollowFileBefore(uint64_t number) {
  if (number == 1) return absl::OkStatus();
  const std::string path = PathOf(options_.folder, number - 1);
  const absl::StatusOr<int> opened = OpenFile(path, O_RDONLY);
  if (!opened.ok()) {
    return absl::Status(opened.status().code(),
                        absl::StrCat("the newest file of the audit log is "
                                     "empty, and nothing is before it: ",
                                     opened.status().message(), "; ", kRemedy));
  }
  const int fd = *opened;
  struct stat facts = {};
  const bool known = ::fstat(fd, &facts) == 0;
  const auto size = static_cast<uint64_t>(facts.st_size);
  const absl::StatusOr<LastLine> last =
      known ? ReadLastLine(fd, path, size) : Refused("look at", path);
  ::close(fd);
  if (!last.ok()) return last.status();
  const absl::StatusOr<Place> place = PlaceBehind(last->text, path);
  if (!place.ok()) return place.status();
  place_ = *place;
  first_ = place_.sequence;
  return absl::OkStatus();
}

absl::Status AuditAppender::TakeUp(const std::string& path, bool* empty) {
  struct stat facts = {};
  if (::fstat(file_, &facts) != 0) return Refused("look at", path);
  const auto size = static_cast<uint64_t>(facts.st_size);
  const absl::StatusOr<LastLine> last = ReadLastLine(file_, path, size);
  if (!last.ok()) return last.status();
  *empty = !last->found;
  size_ = last->end;
  if (last->found) {
    const absl::StatusOr<Place> place = PlaceBehind(last->text, path);
    if (!place.ok()) return place.status();
    place_ = *place;
    const absl::StatusOr<uint64_t> first = FirstSequence(file_, path);
    if (!first.ok()) return first.status();
    first_ = std::min(*first, place_.sequence);
  }
  const uint64_t torn = size - size_;
  if (torn == 0) return absl::OkStatus();
  const absl::StatusOr<std::string> quoted =
      ReadAt(file_, path, size_, std::min<uint64_t>(torn, kQuotedBytes));
  if (!quoted.ok()) return quoted.status();
  if (::ftruncate(file_, static_cast<off_t>(size_)) != 0) {
    return Refused("mend", path);
  }
  mended_ = absl::StrCat(
      "removed ", torn, " bytes behind the last whole record of ",
      path.substr(path.rfind('/') + 1), ": \"", absl::CHexEscape(*quoted),
      torn > kQuotedBytes ? "..." : "", "\"");
  return absl::OkStatus();
}

absl::Status AuditAppender::BeginFile(uint64_t number) {
  const std::string path = PathOf(options_.folder, number);
  const int fd = ::open(
      path.c_str(),
      O_RDWR | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Refused("make", path);
  if (file_ >= 0) ::close(file_);
  file_ = fd;
  number_ = number;
  size_ = 0;
  has_rest_ = false;
  first_ = place_.sequence;
  return SyncFolder(options_.folder);
}

bool AuditAppender::IsGone() const {
  struct stat own = {};
  struct stat named = {};
  if (::fstat(file_, &own) != 0) return false;
  if (own.st_nlink == 0) return true;
  if (::lstat(PathOf(options_.folder, number_).c_str(), &named) != 0) {
    return errno == ENOENT || errno == ENOTDIR;
  }
  return own.st_ino != named.st_ino || own.st_dev != named.st_dev;
}

absl::Status AuditAppender::ReplaceGoneFile() {
  if (!IsGone()) return absl::OkStatus();
  const std::string path = PathOf(options_.folder, number_);
  GoneFile gone = {.name = path.substr(path.rfind('/') + 1),
                   .first = first_,
                   .last = place_.sequence - 1};
  // Somebody may have removed the folder, too.
  absl::Status begun = MakeFolder(options_.folder);
  if (begun.ok()) begun = BeginFile(number_ + 1);
  if (begun.ok()) gone_.push_back(std::move(gone));
  return begun;
}

void AuditAppender::DeleteOldFiles() {
  const auto files = FilesIn(options_.folder);
  if (!files.ok()) return;  // the next file tries again
  for (const AuditFile& file : *files) {
    if (file.number + options_.files <= number_) ::unlink(file.path.c_str());
  }
}

absl::Status AuditAppender::Append(std::deque<Record>* records) {
  if (records->empty()) return absl::OkStatus();
  const absl::Status in_place = ReplaceGoneFile();
  if (!in_place.ok()) return in_place;
  std::string lines;
  size_t count = 0;
  Place next = place_;
  const auto write = [&] {
    const absl::Status written = Write(lines);
    if (!written.ok()) return written;
    place_ = next;
    records->erase(records->begin(),
                   records->begin() + static_cast<std::ptrdiff_t>(count));
    lines.clear();
    count = 0;
    return absl::OkStatus();
  };
  while (count < records->size()) {
    const std::string line = LineOf((*records)[count], next);
    if (size_ + lines.size() > 0 &&
        size_ + lines.size() + line.size() + 1 > options_.file_bytes) {
      absl::Status turned = write();
      if (turned.ok()) turned = SyncFile();
      if (turned.ok()) turned = BeginFile(number_ + 1);
      if (!turned.ok()) return turned;
      DeleteOldFiles();
      continue;  // the line is made again, for the new file
    }
    next = {.sequence = next.sequence + 1, .previous = DigestOfLine(line)};
    absl::StrAppend(&lines, line, "\n");
    ++count;
  }
  return write();
}

absl::Status AuditAppender::Write(const std::string& lines) {
  const std::string path = PathOf(options_.folder, number_);
  if (has_rest_ && ::ftruncate(file_, static_cast<off_t>(size_)) != 0) {
    return Refused("mend", path);
  }
  has_rest_ = false;
  size_t done = 0;
  while (done < lines.size()) {
    const ssize_t count =
        ::write(file_, lines.data() + done, lines.size() - done);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      const absl::Status status = Refused("write", path);
      has_rest_ = ::ftruncate(file_, static_cast<off_t>(size_)) != 0;
      return status;
    }
    done += static_cast<size_t>(count);
  }
  size_ += done;
  return absl::OkStatus();
}

absl::Status AuditAppender::SyncFile() {
  if (::fdatasync(file_) == 0) return absl::OkStatus();
  return Refused("sync", PathOf(options_.folder, number_));
}

absl::Status AuditAppender::Sync() {
  const absl::Status synced = SyncFile();
  return synced.ok() ? ReplaceGoneFile() : synced;
}

}  // namespace gpupool::audit
