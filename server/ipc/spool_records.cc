#include "server/ipc/spool_records.h"

#include <google/protobuf/message_lite.h>
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

std::string SpoolRecord(const google::protobuf::MessageLite& message) {
  const std::string body = message.SerializeAsString();
  const std::array<uint32_t, 2> prefix = {static_cast<uint32_t>(body.size()),
                                          Crc(body)};
  std::string record(kRecordPrefixBytes, '\0');
  std::memcpy(record.data(), prefix.data(), kRecordPrefixBytes);
  return record + body;
}

bool TakeSpoolRecord(absl::string_view& bytes,
                     google::protobuf::MessageLite* message) {
  if (bytes.size() < kRecordPrefixBytes) return false;
  std::array<uint32_t, 2> prefix;
  std::memcpy(prefix.data(), bytes.data(), kRecordPrefixBytes);
  const auto [length, crc] = prefix;
  if (length > kMaxSpoolRecordBytes ||
      bytes.size() - kRecordPrefixBytes < length) {
    return false;
  }
  const absl::string_view body = bytes.substr(kRecordPrefixBytes, length);
  if (Crc(body) != crc ||
      !message->ParseFromArray(body.data(), static_cast<int>(length))) {
    return false;
  }
  bytes.remove_prefix(kRecordPrefixBytes + length);
  return true;
}

}  // namespace gpupool::server
