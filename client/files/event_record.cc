#include "client/files/event_record.h"

#include <bit>
#include <limits>

#include "absl/strings/string_view.h"
#include "client/files/crc32c.h"

namespace gpupool::client {
namespace {

// Numbers of the fields, from tensorflow/core/util/event.proto and
// tensorflow/core/framework/summary.proto.
namespace event_field {
constexpr uint32_t kWallTime = 1;     // double: seconds since 1970
constexpr uint32_t kStep = 2;         // int64
constexpr uint32_t kFileVersion = 3;  // string
constexpr uint32_t kSummary = 5;      // Summary
constexpr uint32_t kSessionLog = 7;   // SessionLog
}  // namespace event_field
constexpr uint32_t kSessionStatus = 1;  // enum
constexpr uint64_t kSessionStart = 1;
constexpr uint32_t kSummaryValue = 1;  // repeated Value
namespace value_field {
constexpr uint32_t kTag = 1;          // string
constexpr uint32_t kSimpleValue = 2;  // float
constexpr uint32_t kMetadata = 9;     // SummaryMetadata
}  // namespace value_field
constexpr uint32_t kPluginData = 1;  // PluginData
constexpr uint32_t kPluginName = 1;  // string
constexpr uint32_t kDataClass = 4;   // enum
constexpr uint64_t kScalarClass = 1;

// Kinds of fields on the wire.
constexpr uint32_t kVarint = 0;
constexpr uint32_t kFixed64 = 1;
constexpr uint32_t kBytes = 2;
constexpr uint32_t kFixed32 = 5;

template <typename Number>
void PutLittleEndian(Number number, std::string& out) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    out.push_back(static_cast<char>((number >> (8 * i)) & 0xff));
  }
}

void PutVarint(uint64_t number, std::string& out) {
  for (; number >= 0x80; number >>= 7) {
    out.push_back(static_cast<char>((number & 0x7f) | 0x80));
  }
  out.push_back(static_cast<char>(number));
}

void PutKey(uint32_t field, uint32_t kind, std::string& out) {
  PutVarint((field << 3) | kind, out);
}

void PutNumber(uint32_t field, uint64_t number, std::string& out) {
  PutKey(field, kVarint, out);
  PutVarint(number, out);
}

void PutDouble(uint32_t field, double number, std::string& out) {
  PutKey(field, kFixed64, out);
  PutLittleEndian(std::bit_cast<uint64_t>(number), out);
}

void PutFloat(uint32_t field, float number, std::string& out) {
  PutKey(field, kFixed32, out);
  PutLittleEndian(std::bit_cast<uint32_t>(number), out);
}

void PutText(uint32_t field, absl::string_view text, std::string& out) {
  PutKey(field, kBytes, out);
  PutVarint(text.size(), out);
  out.append(text.data(), text.size());
}

// Returns the nearest number of 32 bits. Larger ones become infinite.
float Narrow(double number) {
  using Limits = std::numeric_limits<float>;
  if (number > Limits::max()) return Limits::infinity();
  if (number < Limits::lowest()) return -Limits::infinity();
  return static_cast<float>(number);
}

std::string EventAt(absl::Time time, uint64_t step) {
  std::string event;
  PutDouble(event_field::kWallTime,
            absl::ToDoubleSeconds(time - absl::UnixEpoch()), event);
  if (step != 0) PutNumber(event_field::kStep, step, event);
  return event;
}

std::string ScalarMetadata() {
  std::string plugin;
  PutText(kPluginName, "scalars", plugin);
  std::string metadata;
  PutText(kPluginData, plugin, metadata);
  PutNumber(kDataClass, kScalarClass, metadata);
  return metadata;
}

void PutChecksum(absl::string_view bytes, std::string& out) {
  const uint32_t crc = Crc32c(bytes);
  // The format masks checksums, because the checksum of bytes that end in their
  // own checksum is the same for all bytes.
  constexpr uint32_t kMask = 0xa282ead8;
  PutLittleEndian(((crc >> 15) | (crc << 17)) + kMask, out);
}

std::string Framed(absl::string_view payload) {
  std::string record;
  PutLittleEndian(static_cast<uint64_t>(payload.size()), record);
  const std::string length = record;
  PutChecksum(length, record);
  record.append(payload.data(), payload.size());
  PutChecksum(payload, record);
  return record;
}

}  // namespace

std::string VersionRecord(absl::Time time) {
  std::string event = EventAt(time, 0);
  PutText(event_field::kFileVersion, "brain.Event:2", event);
  return Framed(event);
}

std::string RewindRecord(absl::Time time, uint64_t step) {
  std::string log;
  PutNumber(kSessionStatus, kSessionStart, log);
  std::string event = EventAt(time, step);
  PutText(event_field::kSessionLog, log, event);
  return Framed(event);
}

std::string ScalarsRecord(const ScalarEvent& event) {
  static const std::string& metadata = *new std::string(ScalarMetadata());
  std::string summary;
  for (const auto& [tag, number] : event.values) {
    std::string value;
    PutText(value_field::kTag, tag, value);
    PutFloat(value_field::kSimpleValue, Narrow(number), value);
    PutText(value_field::kMetadata, metadata, value);
    PutText(kSummaryValue, value, summary);
  }
  std::string bytes = EventAt(event.time, event.step);
  PutText(event_field::kSummary, summary, bytes);
  return Framed(bytes);
}

}  // namespace gpupool::client
