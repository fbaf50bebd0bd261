#include "audit/lost_number.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpupool::audit {

LostNumber::~LostNumber() {
  if (file_ >= 0) ::close(file_);
}

absl::Status LostNumber::Open(const std::string& folder) {
  const std::string path = absl::StrCat(folder, "/", kLostNumberName);
  file_ = ::open(path.c_str(),
                 O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
  if (file_ < 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  struct stat facts = {};
  if (::fstat(file_, &facts) != 0 || !S_ISREG(facts.st_mode)) {
    ::close(file_);
    file_ = -1;
    return absl::UnavailableError(
        absl::StrCat("cannot open ", path, ": it is no regular file"));
  }
  char digits[kDigits] = {};
  const ssize_t count = ::pread(file_, digits, kDigits, 0);
  if (count == static_cast<ssize_t>(kDigits) &&
      absl::SimpleAtoi(absl::string_view(digits, kDigits), &number_)) {
    return absl::OkStatus();
  }
  number_ = 0;
  return Keep(0);
}

absl::Status LostNumber::Keep(uint64_t number) {
  if (file_ < 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("the file ", kLostNumberName, " is not open"));
  }
  const std::string digits = absl::StrFormat("%020u", number);
  const ssize_t count = ::pwrite(file_, digits.data(), digits.size(), 0);
  if (count != static_cast<ssize_t>(digits.size()) || ::fdatasync(file_) != 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot write ", kLostNumberName, ": ",
                     count < 0 || count == static_cast<ssize_t>(digits.size())
                         ? std::strerror(errno)
                         : "the disk took only a part"));
  }
  number_ = number;
  return absl::OkStatus();
}

}  // namespace gpupool::audit
