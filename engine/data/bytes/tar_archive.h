// Index of a tar archive that lies in memory: ustar, pax (POSIX.1-2001) and
// GNU's long names. Bytes are untrusted: every header's checksum, name and size
// is checked.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine {

struct TarMember {
  std::string name;         // relative, without "." and ".." and empty parts
  absl::string_view bytes;  // in the archive
};

// Returns the regular files of the archive in their order. Folders are left
// out. Members refer to `archive`, which the caller keeps alive.
// INVALID_ARGUMENT names the member or the place, and the remedy, for
//   - archives that are compressed, cut off or damaged
//   - links, devices and pipes
//   - names that are absolute or have a part ".."
//   - more than kMaxTarMembers members
absl::StatusOr<std::vector<TarMember>> ReadTar(absl::string_view archive);

inline constexpr size_t kMaxTarMembers = 5'000'000;

}  // namespace gpupool::engine
