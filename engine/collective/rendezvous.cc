#include "engine/collective/rendezvous.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

absl::Status CheckKey(absl::string_view key) {
  const bool plain = std::all_of(key.begin(), key.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  });
  // A key is the name of a file. A dot at the start could lead out of the
  // folder.
  if (key.empty() || key.size() > kMaxRendezvousKey || key[0] == '.' ||
      !plain) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rendezvous key \"", key.substr(0, kMaxRendezvousKey),
        "\" must be 1 to ", kMaxRendezvousKey,
        " letters, digits, dots, dashes or underscores, no dot first"));
  }
  return absl::OkStatus();
}

absl::Status SystemError(absl::string_view what, absl::string_view path) {
  return absl::UnavailableError(
      absl::StrCat("rendezvous: ", what, " ", path, ": ", strerror(errno)));
}

// A file descriptor that is closed at the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  int number_;
};

absl::Status WriteFile(const std::string& path, absl::string_view text) {
  const Descriptor file(
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (file.number() < 0) return SystemError("cannot create", path);
  while (!text.empty()) {
    const ssize_t written = write(file.number(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return SystemError("cannot write", path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RendezvousStore::Set(absl::string_view key,
                                  absl::string_view text) {
  RETURN_IF_ERROR(CheckKey(key));
  if (text.size() > kMaxRendezvousBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rendezvous key ", key, ": ", text.size(),
        " bytes are more than the limit of ", kMaxRendezvousBytes));
  }
  return DoSet(std::string(key), text);
}

absl::StatusOr<std::string> RendezvousStore::Get(absl::string_view key) {
  RETURN_IF_ERROR(CheckKey(key));
  return DoGet(std::string(key));
}

absl::Status MemoryRendezvous::DoSet(const std::string& key,
                                     absl::string_view text) {
  const absl::MutexLock lock(&mutex_);
  if (!texts_.try_emplace(key, text).second) {
    return absl::AlreadyExistsError(
        absl::StrCat("rendezvous key ", key, " is set already"));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> MemoryRendezvous::DoGet(const std::string& key) {
  const absl::MutexLock lock(&mutex_);
  const auto found = texts_.find(key);
  if (found == texts_.end()) {
    return absl::NotFoundError(
        absl::StrCat("rendezvous key ", key, " is not set"));
  }
  return found->second;
}

absl::Status FolderRendezvous::DoSet(const std::string& key,
                                     absl::string_view text) {
  // The text is written to a draft first, whose name is unique on the machine.
  // A reader then never sees half of it, and a draft begins with a dot, which
  // no key does.
  static std::atomic<uint64_t> files{0};
  const std::string path = absl::StrCat(folder_, "/", key);
  const std::string draft =
      absl::StrCat(folder_, "/.", key, ".", getpid(), ".", files.fetch_add(1));
  absl::Status status = WriteFile(draft, text);
  // Publishes the draft. Unlike rename, link fails when the name exists.
  if (status.ok() && link(draft.c_str(), path.c_str()) != 0) {
    status = errno == EEXIST ? absl::AlreadyExistsError(absl::StrCat(
                                   "rendezvous key ", key, " is set already"))
                             : SystemError("cannot create", path);
  }
  // The key is a second name of the same file, which stays.
  unlink(draft.c_str());
  return status;
}

absl::StatusOr<std::string> FolderRendezvous::DoGet(const std::string& key) {
  const std::string path = absl::StrCat(folder_, "/", key);
  // O_NOFOLLOW refuses a link that another user may have put there.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.number() < 0) {
    if (errno != ENOENT) return SystemError("cannot open", path);
    return absl::NotFoundError(
        absl::StrCat("rendezvous key ", key, " is not set"));
  }
  std::string text;
  char block[4096];
  while (true) {
    const ssize_t got = read(file.number(), block, sizeof(block));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return SystemError("cannot read", path);
    if (got == 0) return text;
    text.append(block, static_cast<size_t>(got));
    // Other programs may have written the file, so its size is not trusted.
    if (text.size() > kMaxRendezvousBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("rendezvous key ", key, " has more than ",
                       kMaxRendezvousBytes, " bytes"));
    }
  }
}

}  // namespace gpupool::engine
