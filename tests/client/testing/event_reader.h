// Reads event files of TensorBoard, for tests of what writes them. Written from
// the description of the format, with nothing of the product: the checksum is
// computed bit by bit, and fields of messages are walked one by one.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace gpupool::client {

struct EventRead {
  double wall_time = 0;
  int64_t step = 0;
  std::string version;
  bool starts_session = false;
  std::map<std::string, float> values;         // by tag
  std::map<std::string, std::string> plugins;  // by tag
};

// Reads numbers of `bytes` one after the other. A number beyond the end is a
// failure of the test.
class EventCursor {
 public:
  explicit EventCursor(std::string_view bytes) : rest_(bytes) {}

  bool done() const { return rest_.empty(); }

  std::string_view Take(size_t count) {
    if (count > rest_.size()) {
      ADD_FAILURE() << "needs " << count << " bytes, has " << rest_.size();
      count = rest_.size();
    }
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }

  uint64_t Fixed(size_t width) {
    uint64_t number = 0;
    const std::string_view bytes = Take(width);
    for (size_t i = bytes.size(); i > 0; --i) {
      number = number << 8 | static_cast<uint8_t>(bytes[i - 1]);
    }
    return number;
  }

  uint64_t Varint() {
    uint64_t number = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const std::string_view byte = Take(1);
      if (byte.empty()) break;
      number |= uint64_t{static_cast<uint8_t>(byte[0]) & 0x7fu} << shift;
      if ((static_cast<uint8_t>(byte[0]) & 0x80) == 0) break;
    }
    return number;
  }

 private:
  std::string_view rest_;
};

// A field of a message: its number, and its value as a number or as bytes.
struct EventField {
  uint64_t field = 0;
  uint64_t number = 0;
  std::string_view bytes;
};

inline std::vector<EventField> EventFields(std::string_view message) {
  std::vector<EventField> fields;
  EventCursor cursor(message);
  while (!cursor.done()) {
    const uint64_t key = cursor.Varint();
    EventField field{key >> 3, 0, {}};
    switch (key & 7) {
      case 0:
        field.number = cursor.Varint();
        break;
      case 1:
        field.number = cursor.Fixed(8);
        break;
      case 2:
        field.bytes = cursor.Take(cursor.Varint());
        break;
      case 5:
        field.number = cursor.Fixed(4);
        break;
      default:
        ADD_FAILURE() << "wire type " << (key & 7);
        return fields;
    }
    fields.push_back(field);
  }
  return fields;
}

// Returns the checksum of the format: CRC-32C by long division, then masked.
inline uint32_t MaskedSum(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) {
    for (int bit = 0; bit < 8; ++bit) {
      const uint32_t in = static_cast<uint32_t>(static_cast<uint8_t>(c)) >> bit;
      const bool odd = ((crc ^ in) & 1) != 0;
      crc >>= 1;
      if (odd) crc ^= 0x82f63b78;
    }
  }
  return std::rotr(~crc, 15) + 0xa282ead8;
}

inline void ReadValue(std::string_view message, EventRead& event) {
  std::string tag;
  for (const EventField& field : EventFields(message)) {
    if (field.field == 1) tag = field.bytes;
    if (field.field == 2) {
      event.values[tag] =
          std::bit_cast<float>(static_cast<uint32_t>(field.number));
    }
    if (field.field != 9) continue;
    for (const EventField& metadata : EventFields(field.bytes)) {
      if (metadata.field == 4 && metadata.number != 1) {
        ADD_FAILURE() << tag << " is no scalar";
      }
      if (metadata.field != 1) continue;
      for (const EventField& plugin : EventFields(metadata.bytes)) {
        if (plugin.field == 1) event.plugins[tag] = plugin.bytes;
      }
    }
  }
}

inline EventRead ReadEvent(std::string_view message) {
  EventRead event;
  for (const EventField& field : EventFields(message)) {
    if (field.field == 1) event.wall_time = std::bit_cast<double>(field.number);
    if (field.field == 2) event.step = static_cast<int64_t>(field.number);
    if (field.field == 3) event.version = field.bytes;
    if (field.field == 5) {
      for (const EventField& value : EventFields(field.bytes)) {
        if (value.field == 1) ReadValue(value.bytes, event);
      }
    }
    if (field.field == 7) {
      const auto log = EventFields(field.bytes);
      event.starts_session =
          log.size() == 1 && log[0].field == 1 && log[0].number == 1;
    }
  }
  return event;
}

// Returns the events of a file's bytes, whose checksums must be right.
inline std::vector<EventRead> ReadEvents(std::string_view bytes) {
  std::vector<EventRead> events;
  EventCursor cursor(bytes);
  while (!cursor.done()) {
    const std::string_view length = cursor.Take(8);
    EXPECT_EQ(cursor.Fixed(4), MaskedSum(length)) << "of a length";
    const std::string_view payload =
        cursor.Take(EventCursor(length).Fixed(length.size()));
    EXPECT_EQ(cursor.Fixed(4), MaskedSum(payload)) << "of a payload";
    events.push_back(ReadEvent(payload));
  }
  return events;
}

inline std::string ReadEventBytes(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Returns the files of a folder in the order of their names.
inline std::vector<std::filesystem::path> FilesOf(const std::string& folder) {
  std::map<std::string, std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    files[entry.path().filename().string()] = entry.path();
  }
  std::vector<std::filesystem::path> sorted;
  for (const auto& [name, path] : files) sorted.push_back(path);
  return sorted;
}

}  // namespace gpupool::client
