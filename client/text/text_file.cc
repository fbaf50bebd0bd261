#include "client/text/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {

absl::StatusOr<std::string> ReadTextFile(const std::string& path,
                                         size_t limit_bytes) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> owned(nullptr, &std::fclose);
  std::FILE* file = stdin;
  if (path != "-") {
    owned.reset(std::fopen(path.c_str(), "rb"));
    file = owned.get();
    if (file == nullptr) {
      return absl::ErrnoToStatus(errno, absl::StrCat("cannot open ", path));
    }
  }
  std::string text;
  char buffer[1 << 16];
  size_t count = 0;
  while ((count = std::fread(buffer, 1, sizeof(buffer), file)) > 0) {
    text.append(buffer, count);
    if (text.size() > limit_bytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is larger than ", limit_bytes,
                       " bytes; is it the right file?"));
    }
  }
  if (std::ferror(file)) {
    if (errno == EISDIR) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is a folder; name a file in it"));
    }
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot read ", path));
  }
  return text;
}

}  // namespace gpupool::client
