#include "server/store/upload_sidecar.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "server/store/blob_files.h"
#include "server/store/blob_writer.h"

namespace gpupool::server {
namespace {

constexpr char kBootIdFile[] = "/proc/sys/kernel/random/boot_id";
constexpr size_t kMostSidecarBytes = 512;

// Returns the first bytes of a small file.
absl::StatusOr<std::string> ReadStart(const std::string& path) {
  const BlobFile file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (file.fd() < 0 && errno == ENOENT) {
    return absl::NotFoundError("there is no sidecar");
  }
  if (file.fd() < 0) return FileError("opening a sidecar");
  std::string text(kMostSidecarBytes, '\0');
  const ssize_t count = read(file.fd(), text.data(), text.size());
  if (count < 0) return FileError("reading a sidecar");
  text.resize(static_cast<size_t>(count));
  return text;
}

}  // namespace

std::string MachineBootId() {
  const absl::StatusOr<std::string> text = ReadStart(kBootIdFile);
  if (!text.ok() || text->size() < 2) return "unknown";
  return text->substr(0, text->find('\n'));
}

std::string SidecarText(const UploadSidecar& sidecar) {
  const bool owned = !sidecar.tenant.empty();
  return absl::StrCat("gpupool-upload ", owned ? 2 : 1, " ", sidecar.sha256,
                      " ", sidecar.total_bytes, " ", sidecar.durable_bytes, " ",
                      sidecar.boot_id, owned ? " " : "", sidecar.tenant, "\n");
}

absl::StatusOr<UploadSidecar> ParseSidecar(absl::string_view text) {
  const absl::Status damaged =
      absl::DataLossError("the sidecar of an upload is damaged");
  if (!absl::ConsumeSuffix(&text, "\n")) return damaged;
  const std::vector<std::string> words = absl::StrSplit(text, ' ');
  if (words.size() < 6 || words[0] != "gpupool-upload") return damaged;
  const bool owned = words[1] == "2";
  if ((!owned && words[1] != "1") || words.size() != (owned ? 7 : 6)) {
    return damaged;
  }
  UploadSidecar sidecar;
  if (owned) sidecar.tenant = words[6];
  if (owned && sidecar.tenant.empty()) return damaged;
  sidecar.sha256 = words[2];
  sidecar.boot_id = words[5];
  if (!engine::IsSha256Hex(sidecar.sha256) || sidecar.boot_id.empty() ||
      !absl::SimpleAtoi(words[3], &sidecar.total_bytes) ||
      !absl::SimpleAtoi(words[4], &sidecar.durable_bytes) ||
      sidecar.total_bytes == 0 || sidecar.durable_bytes > sidecar.total_bytes) {
    return damaged;
  }
  return sidecar;
}

absl::StatusOr<UploadSidecar> ReadSidecar(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadStart(path));
  return ParseSidecar(text);
}

absl::Status WriteSidecar(const std::string& path,
                          const UploadSidecar& sidecar) {
  const std::string made = absl::StrCat(path, ".new");
  {
    const BlobFile file(
        open(made.c_str(),
             O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (file.fd() < 0) return FileError("creating a sidecar");
    RETURN_IF_ERROR(WriteAt(file.fd(), SidecarText(sidecar), 0));
    if (fsync(file.fd()) != 0) return FileError("syncing a sidecar");
  }
  if (rename(made.c_str(), path.c_str()) != 0) {
    return FileError("renaming a sidecar");
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
