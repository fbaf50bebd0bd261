#include "audit/audit_check.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <deque>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "audit/audit_folder.h"
#include "audit/audit_record.h"

namespace gpupool::audit {
namespace {

// A place in a file, for messages.
struct Line {
  const std::string& path;
  uint64_t number = 0;

  std::string Text() const { return absl::StrCat(path, ":", number); }
};

using TakeLine = std::function<absl::Status(const Line&, absl::string_view)>;

constexpr size_t kReadBytes = 64 << 10;  // read at once

absl::Status Damage(const Line& line, absl::string_view what) {
  return absl::DataLossError(absl::StrCat(line.Text(), ": ", what));
}

// Calls `take` with each whole line of an open file, until it fails. Returns
// the bytes behind the last whole line.
absl::StatusOr<uint64_t> ReadLinesOf(int fd, const std::string& path,
                                     const TakeLine& take) {
  std::string rest;  // of a line, at most one byte more than a line may have
  uint64_t rest_bytes = 0;
  uint64_t number = 1;
  std::string block(kReadBytes, '\0');
  while (true) {
    const ssize_t count = ::read(fd, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      return absl::UnavailableError(
          absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
    }
    if (count == 0) return rest_bytes;
    absl::string_view bytes(block.data(), static_cast<size_t>(count));
    while (!bytes.empty()) {
      const size_t end = bytes.find('\n');
      const absl::string_view part = bytes.substr(0, end);
      absl::StrAppend(&rest, part.substr(0, kMostLineBytes + 1 - rest.size()));
      rest_bytes += part.size();
      if (end == absl::string_view::npos) break;
      if (rest.size() > kMostLineBytes) {
        return Damage({path, number},
                      absl::StrCat("the line is longer than ", kMostLineBytes,
                                   " bytes, so it is no record"));
      }
      const absl::Status taken = take({path, number}, rest);
      if (!taken.ok()) return taken;
      ++number;
      rest.clear();
      rest_bytes = 0;
      bytes.remove_prefix(end + 1);
    }
  }
}

// Does the same with the file of a path.
absl::StatusOr<uint64_t> ReadLines(const std::string& path,
                                   const TakeLine& take) {
  const absl::StatusOr<int> fd = OpenFile(path, O_RDONLY);
  if (!fd.ok()) return fd.status();
  const absl::StatusOr<uint64_t> torn = ReadLinesOf(*fd, path, take);
  ::close(*fd);
  return torn;
}

class Chain {
 public:
  // Begins with the file of this number. The first of all has a known start.
  Chain(uint64_t first_file, absl::string_view wanted)
      : from_start_(first_file == 1), wanted_(wanted) {}

  absl::Status Take(const Line& line, absl::string_view text) {
    const absl::StatusOr<Place> place = PlaceIn(text);
    if (!place.ok()) return Damage(line, place.status().message());
    const absl::Status fits =
        report_.records == 0 ? Begin(line, *place) : Follow(line, *place);
    if (!fits.ok()) return fits;
    ++report_.records;
    report_.last_sequence = place->sequence;
    report_.last_digest = DigestOfLine(text);
    found_ = found_ || report_.last_digest == wanted_;
    last_line_ = line.Text();
    return absl::OkStatus();
  }

  CheckReport& report() { return report_; }
  bool has_wanted() const { return wanted_.empty() || found_; }

 private:
  absl::Status Begin(const Line& line, const Place& place) {
    report_.first_sequence = place.sequence;
    if (!from_start_ || (place.sequence == 1 && place.previous == kNoDigest)) {
      return absl::OkStatus();
    }
    return Damage(line, absl::StrCat("the first record of all has sequence ",
                                     place.sequence,
                                     " and a record before it: records were "
                                     "removed, or it was changed"));
  }

  absl::Status Follow(const Line& line, const Place& place) const {
    const uint64_t next = report_.last_sequence + 1;
    if (place.sequence != next) {
      return Damage(line, absl::StrCat("the record has sequence ",
                                       place.sequence, " where ", next,
                                       " is expected: records were removed, "
                                       "added or moved"));
    }
    if (place.previous == report_.last_digest) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat(last_line_, ": the record was changed: ", line.Text(),
                     " has another digest of it"));
  }

  const bool from_start_;
  const absl::string_view wanted_;
  bool found_ = false;
  std::string last_line_;
  CheckReport report_;
};

absl::StatusOr<std::vector<AuditFile>> SomeFilesIn(const std::string& folder) {
  auto files = FilesIn(folder);
  if (files.ok() && files->empty()) {
    return absl::NotFoundError(
        absl::StrCat("there is no audit log in ", folder,
                     ": name a state folder, or the folder audit in it"));
  }
  return files;
}

// Checks that no file is missing before this one, and that only the newest one
// ends in the middle of a line.
absl::Status CheckNeighbours(const std::vector<AuditFile>& files, size_t i,
                             const CheckReport& report) {
  if (i == 0) return absl::OkStatus();
  if (files[i].number != files[i - 1].number + 1) {
    return absl::DataLossError(
        absl::StrCat(files[i].path, " does not follow ", files[i - 1].path,
                     ": files between them were removed"));
  }
  if (report.torn_bytes == 0) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(report.torn_file,
                   ": the file ends in the middle of a line, "
                   "and it is not the newest one"));
}

}  // namespace

absl::StatusOr<CheckReport> CheckLog(const std::string& folder,
                                     absl::string_view wanted) {
  const auto files = SomeFilesIn(folder);
  if (!files.ok()) return files.status();
  Chain chain(files->front().number, wanted);
  CheckReport& report = chain.report();
  for (size_t i = 0; i < files->size(); ++i) {
    const absl::Status neighbours = CheckNeighbours(*files, i, report);
    if (!neighbours.ok()) return neighbours;
    const auto torn = ReadLines(
        (*files)[i].path,
        [&](const Line& line, auto text) { return chain.Take(line, text); });
    if (!torn.ok()) return torn.status();
    report.torn_bytes = *torn;
    report.torn_file = (*files)[i].path;
    ++report.files;
  }
  if (chain.has_wanted()) return report;
  return absl::NotFoundError(absl::StrCat(
      "no record has the digest ", wanted,
      ": its file is older than those that are kept, or records were removed "
      "or written anew"));
}

absl::StatusOr<std::vector<std::string>> LastLines(const std::string& folder,
                                                   uint64_t count) {
  const auto files = SomeFilesIn(folder);
  if (!files.ok()) return files.status();
  std::vector<std::string> lines;
  for (auto file = files->rbegin();
       file != files->rend() && lines.size() < count; ++file) {
    std::deque<std::string> last;
    const auto read = ReadLines(file->path, [&](const Line&, auto text) {
      last.emplace_back(text);
      if (last.size() > count - lines.size()) last.pop_front();
      return absl::OkStatus();
    });
    if (!read.ok()) return read.status();
    lines.insert(lines.begin(), std::make_move_iterator(last.begin()),
                 std::make_move_iterator(last.end()));
  }
  return lines;
}

}  // namespace gpupool::audit
