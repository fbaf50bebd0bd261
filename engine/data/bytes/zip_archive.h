// Finds and unpacks members of a zip archive in memory (PKWARE APPNOTE 6.3: end
// of central directory 4.3.16, central header 4.3.12, local header 4.3.7, zip64
// 4.5.3). Members may be stored or deflated; encryption and split archives are
// not supported. Offsets and sizes are checked against the archive before use.
//
// A value that refers to bytes which the caller keeps alive.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/bytes/byte_stream.h"

namespace gpupool::engine {

struct ZipMember {
  std::string name;
  uint16_t method = 0;  // 0 stored, 8 deflated
  uint32_t crc32 = 0;
  uint64_t packed_bytes = 0;
  uint64_t bytes = 0;
  uint64_t header_offset = 0;
};

class ZipArchive {
 public:
  static constexpr uint64_t kMaxMembers = 1000;

  // Reads the directory. INVALID_ARGUMENT when the bytes are no readable
  // archive.
  static absl::StatusOr<ZipArchive> Open(absl::string_view bytes);

  const std::vector<ZipMember>& members() const { return members_; }
  // Returns null when there is no such member.
  const ZipMember* Find(absl::string_view name) const;
  // Returns a stream of the member's content. It gives exactly `bytes` bytes
  // and fails at its end when the CRC-32 differs.
  absl::StatusOr<std::unique_ptr<ByteStream>> OpenMember(
      const ZipMember& member) const;

 private:
  explicit ZipArchive(absl::string_view bytes) : bytes_(bytes) {}
  absl::Status ReadDirectory();

  absl::string_view bytes_;
  std::vector<ZipMember> members_;
};

}  // namespace gpupool::engine
