#include "client/local_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <filesystem>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

constexpr absl::string_view kScheme = "unix:";
// Linux has room for this path and its end.
constexpr size_t kMostPath = sizeof(sockaddr_un::sun_path) - 1;

// Returns whether the character may be in the path of a URI as it is (RFC
// 3986).
bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         absl::StrContains("-._~/", c);
}

bool IsOwn(const struct stat& file) {
  return file.st_uid == 0 || file.st_uid == geteuid();
}

// Returns whether only this user and root could put a socket there. The folder
// may be a link, which they have made too.
bool IsInOwnFolder(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? std::string(1, '.') : parent;
  struct stat link = {};
  struct stat facts = {};
  return lstat(folder.c_str(), &link) == 0 && IsOwn(link) &&
         stat(folder.c_str(), &facts) == 0 && IsOwn(facts) &&
         (facts.st_mode & S_IWOTH) == 0;
}

}  // namespace

bool IsSocketAddress(absl::string_view address) {
  return absl::StartsWith(address, kScheme);
}

absl::Status CheckSocketAddress(absl::string_view address) {
  const absl::string_view path = address.substr(kScheme.size());
  if (path.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "'", address, "' has no path; give the socket as unix:PATH"));
  }
  if (path.size() > kMostPath) {
    return absl::InvalidArgumentError(
        absl::StrCat("the path of the socket ", path, " has ", path.size(),
                     " bytes, and at most ", kMostPath,
                     " are possible; give it relative to the current folder"));
  }
  return absl::OkStatus();
}

std::string TargetOf(absl::string_view address) {
  if (!IsSocketAddress(address)) return std::string(address);
  std::string target(kScheme);
  for (const char c : address.substr(kScheme.size())) {
    if (IsPlain(c)) {
      target += c;
    } else {
      absl::StrAppend(&target, "%",
                      absl::BytesToHexString(absl::string_view(&c, 1)));
    }
  }
  return target;
}

bool IsOurSocket(const std::string& path) {
  struct stat file = {};
  // No link: it could lead to a socket of root now, and elsewhere soon.
  if (path.size() > kMostPath || lstat(path.c_str(), &file) != 0) return false;
  if (!S_ISSOCK(file.st_mode) || !IsOwn(file)) return false;
  if (!IsInOwnFolder(path)) return false;
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return false;
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, kMostPath);
  const bool listens = connect(fd, reinterpret_cast<const sockaddr*>(&address),
                               sizeof(address)) == 0;
  close(fd);
  return listens;
}

}  // namespace gpupool::client
