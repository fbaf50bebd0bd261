#include "server/worker/doctor/place_facts.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "server/ipc/unique_fd.h"

namespace gpupool::server {
namespace {

namespace fs = std::filesystem;

// Magic numbers that linux/magic.h lacks.
constexpr uint64_t kXfs = 0x58465342;
constexpr uint64_t kCifs = 0xFF534D42;
constexpr uint64_t kFuse = 0x65735546;
constexpr uint64_t kLustre = 0x0BD00BD0;
constexpr uint64_t kCeph = 0x00C36400;
constexpr uint64_t kZfs = 0x2FC12FC1;
constexpr uint64_t kRamfs = 0x858458F6;

constexpr std::pair<uint64_t, const char*> kFileSystems[] = {
    {EXT4_SUPER_MAGIC, "ext4"},
    {kXfs, "xfs"},
    {BTRFS_SUPER_MAGIC, "btrfs"},
    {kZfs, "zfs"},
    {F2FS_SUPER_MAGIC, "f2fs"},
    {TMPFS_MAGIC, "tmpfs"},
    {kRamfs, "ramfs"},
    {PROC_SUPER_MAGIC, "proc"},
    {SYSFS_MAGIC, "sysfs"},
    {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {NFS_SUPER_MAGIC, "nfs"},
    {kCifs, "cifs"},
    {SMB2_SUPER_MAGIC, "smb"},
    {V9FS_MAGIC, "9p"},
    {kFuse, "fuse"},
    {kLustre, "lustre"},
    {kCeph, "ceph"}};

// Returns the name of the path's file system, or "other". Compares 32 bits,
// because f_type is signed and may be extended.
std::string FileSystem(const fs::path& path) {
  struct statfs facts = {};
  if (::statfs(path.c_str(), &facts) != 0) return "other";
  const auto magic = static_cast<uint64_t>(facts.f_type) & 0xFFFFFFFFU;
  for (const auto& [number, name] : kFileSystems) {
    if (magic == (number & 0xFFFFFFFFU)) return name;
  }
  return "other";
}

// Returns the path without ".." and without a trailing slash.
fs::path Plain(const fs::path& path) {
  std::error_code error;
  const fs::path plain = fs::absolute(path, error).lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

// Returns the folder, or its nearest existing parent.
fs::path Existing(const fs::path& path) {
  std::error_code error;
  fs::path at = Plain(path);
  while (!fs::is_directory(at, error) && at.has_relative_path()) {
    at = at.parent_path();
  }
  return at;
}

// Returns why there can be no folder at `path`, as gpupoold would find out; ""
// when it exists or can be made.
std::string WhyNoFolder(const fs::path& path) {
  struct stat facts = {};
  if (::stat(path.c_str(), &facts) == 0) {
    if (S_ISDIR(facts.st_mode)) return "";
    return absl::StrCat(
        path.string(), S_ISREG(facts.st_mode) ? " is a file" : " is no folder");
  }
  const int error = errno;
  if (::lstat(path.c_str(), &facts) == 0 && S_ISLNK(facts.st_mode)) {
    return absl::StrCat(path.string(), " is a link that leads nowhere");
  }
  if ((error == ENOENT || error == ENOTDIR) && path.has_relative_path()) {
    return WhyNoFolder(path.parent_path());
  }
  // A parent that may not be read cannot be written either, which is reported
  // elsewhere.
  return error == EACCES ? "" : std::strerror(error);
}

// Returns whether a running server holds the folder's lock. A shared lock that
// succeeds is released at once.
bool Held(const fs::path& folder) {
  const UniqueFd lock(::open((folder / "lock").c_str(), O_RDONLY | O_CLOEXEC));
  return lock.valid() && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0 &&
         errno == EWOULDBLOCK;
}

// Writes, syncs and deletes a file, because permissions alone do not prove that
// the folder can be written.
void TryToWrite(StateFacts& facts) {
  std::string name = facts.existing + "/.gpupool-doctor-XXXXXX";
  const UniqueFd file(::mkostemp(name.data(), O_CLOEXEC));
  if (!file.valid()) {
    facts.write_error = std::strerror(errno);
    facts.read_only = errno == EROFS;
    return;
  }
  constexpr char kText[] = "gpupool doctor\n";
  if (::write(file.get(), kText, sizeof(kText) - 1) !=
      static_cast<ssize_t>(sizeof(kText) - 1)) {
    facts.write_error = std::strerror(errno);
  } else if (::fsync(file.get()) != 0) {
    facts.sync_error = std::strerror(errno);
  }
  ::unlink(name.c_str());
}

// Returns whether the port is free. Errors other than EADDRINUSE say nothing
// about the port.
bool CanListen(const std::string& address, uint16_t port) {
  const bool six = address.find(':') != std::string::npos;
  const UniqueFd listener(
      ::socket(six ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!listener.valid()) return true;  // unknown
  // As servers do, so that ended connections in TIME_WAIT do not count.
  const int on = 1;
  ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  sockaddr_in6 long_address = {};
  sockaddr_in short_address = {};
  long_address.sin6_family = AF_INET6;
  long_address.sin6_port = htons(port);
  short_address.sin_family = AF_INET;
  short_address.sin_port = htons(port);
  sockaddr* at = nullptr;
  socklen_t size = 0;
  if (six) {
    ::inet_pton(AF_INET6, address.c_str(), &long_address.sin6_addr);
    at = reinterpret_cast<sockaddr*>(&long_address);
    size = sizeof(long_address);
  } else {
    ::inet_pton(AF_INET, address.c_str(), &short_address.sin_addr);
    at = reinterpret_cast<sockaddr*>(&short_address);
    size = sizeof(short_address);
  }
  return (::bind(listener.get(), at, size) == 0 &&
          ::listen(listener.get(), 1) == 0) ||
         errno != EADDRINUSE;
}

}  // namespace

StateFacts ReadStateFacts(const std::string& path) {
  StateFacts facts;
  facts.path = path;
  facts.existing = Existing(path).string();
  facts.file_system = FileSystem(facts.existing);
  facts.folder_error = WhyNoFolder(Plain(path));
  if (facts.file_system == "proc" || facts.file_system == "sysfs") {
    facts.folder_error =
        absl::StrCat(facts.file_system, " has the kernel's own files only");
  }
  if (!facts.folder_error.empty()) return facts;
  struct statvfs space = {};
  if (::statvfs(facts.existing.c_str(), &space) == 0) {
    facts.free_bytes = uint64_t{space.f_bavail} * space.f_frsize;
  }
  facts.held = Held(facts.existing);
  TryToWrite(facts);
  return facts;
}

std::vector<std::string> FolderErrors(const std::string& folders) {
  std::vector<std::string> errors;
  for (absl::string_view folder :
       absl::StrSplit(folders, ':', absl::SkipEmpty())) {
    std::error_code error;
    const fs::path path{std::string(folder)};
    if (!fs::exists(path, error)) {
      errors.push_back(absl::StrCat(folder, " is not there"));
    } else if (!fs::is_directory(path, error)) {
      errors.push_back(absl::StrCat(folder, " is no folder"));
    } else if (path.is_relative()) {
      errors.push_back(absl::StrCat(
          folder, " means another folder wherever gpupoold is started"));
    }
  }
  return errors;
}

bool IsAddress(const std::string& address) {
  in6_addr bytes = {};
  return ::inet_pton(AF_INET, address.c_str(), &bytes) == 1 ||
         ::inet_pton(AF_INET6, address.c_str(), &bytes) == 1;
}

std::vector<uint16_t> HeldPorts(const std::string& address,
                                const std::vector<uint16_t>& ports) {
  std::vector<uint16_t> held;
  for (const uint16_t port : ports) {
    const bool told = std::find(held.begin(), held.end(), port) != held.end();
    if (port != 0 && !told && !CanListen(address, port)) held.push_back(port);
  }
  return held;
}

}  // namespace gpupool::server
