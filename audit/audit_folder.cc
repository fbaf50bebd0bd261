#include "audit/audit_folder.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace gpupool::audit {
namespace {

// Returns the number in the name of a file; 0 if it is the name of another one.
uint64_t NumberIn(const std::string& name) {
  absl::string_view digits = name;
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&digits, "audit-") ||
      !absl::ConsumeSuffix(&digits, ".jsonl") ||
      !absl::SimpleAtoi(digits, &number) || PathOf("", number) != "/" + name) {
    return 0;
  }
  return number;
}

}  // namespace

std::string PathOf(absl::string_view folder, uint64_t number) {
  return absl::StrFormat("%s/audit-%08u.jsonl", folder, number);
}

absl::StatusOr<std::vector<AuditFile>> FilesIn(const std::string& folder) {
  std::error_code error;
  std::filesystem::directory_iterator entries(folder, error);
  if (error) {
    return error == std::errc::no_such_file_or_directory
               ? absl::NotFoundError(
                     absl::StrCat("there is no folder ", folder))
               : absl::UnavailableError(absl::StrCat(
                     "cannot read the folder ", folder, ": ", error.message()));
  }
  std::vector<AuditFile> files;
  while (entries != std::filesystem::directory_iterator()) {
    const uint64_t number = NumberIn(entries->path().filename().string());
    if (number > 0) files.push_back({number, entries->path().string()});
    entries.increment(error);
    if (error) {
      return absl::UnavailableError(absl::StrCat(
          "cannot read the folder ", folder, ": ", error.message()));
    }
  }
  std::sort(files.begin(), files.end(),
            [](const AuditFile& a, const AuditFile& b) {
              return a.number < b.number;
            });
  return files;
}

absl::StatusOr<int> OpenFile(const std::string& path, int flags) {
  // A pipe without a writer blocks otherwise.
  const int fd =
      ::open(path.c_str(), flags | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) {
    const int error = errno;
    return absl::UnavailableError(absl::StrCat(
        "cannot open ", path, ": ",
        error == ELOOP ? "it is a symbolic link, which is not followed; remove "
                         "it from the folder"
                       : std::strerror(error),
        error == EACCES   ? "; only the server's user may read it"
        : error == ENOENT ? "; the server has deleted it meanwhile, try again"
                          : ""));
  }
  struct stat facts = {};
  if (::fstat(fd, &facts) == 0 && S_ISREG(facts.st_mode)) return fd;
  ::close(fd);
  return absl::UnavailableError(absl::StrCat(
      "cannot open ", path, ": it is ",
      S_ISDIR(facts.st_mode)    ? "a folder"
      : S_ISFIFO(facts.st_mode) ? "a pipe"
                                : "no regular file",
      " with the name of an audit file; remove it from the folder"));
}

std::string FolderOfLog(const std::string& folder) {
  std::error_code error;
  std::string inner = absl::StrCat(folder, "/", kFolderName);
  return std::filesystem::is_directory(inner, error) ? inner : folder;
}

}  // namespace gpupool::audit
