#include "server/ipc/spool_records.h"

#include <zlib.h>

#include <array>
#include <cstring>

namespace gpupool::server {
namespace {

constexpr size_t kRecordPrefixBytes = 8;

uint32_t Crc(absl::string_view body) {
  return static_cast<uint32_t>(
      ::crc32(0, reinterpret_cast<const Bytef*>(body.data()),
              static_cast<uInt>(body.size())));
}

}  // namespace

std::string SpoolRecord(absl::string_view body) {
  const std::array<uint32_t, 2> prefix = {static_cast<uint32_t>(body.size()),
                                          Crc(body)};
  std::string record(kRecordPrefixBytes, '\0');
  std::memcpy(record.data(), prefix.data(), kRecordPrefixBytes);
  record.append(body.data(), body.size());
  return record;
}

std::optional<absl::string_view> TakeSpoolRecord(absl::string_view& bytes) {
  if (bytes.size() < kRecordPrefixBytes) return std::nullopt;
  std::array<uint32_t, 2> prefix;
  std::memcpy(prefix.data(), bytes.data(), kRecordPrefixBytes);
  const auto [length, crc] = prefix;
  if (length > kMaxSpoolRecordBytes ||
      bytes.size() - kRecordPrefixBytes < length) {
    return std::nullopt;
  }
  const absl::string_view body = bytes.substr(kRecordPrefixBytes, length);
  if (Crc(body) != crc) return std::nullopt;
  bytes.remove_prefix(kRecordPrefixBytes + length);
  return body;
}

}  // namespace gpupool::server
