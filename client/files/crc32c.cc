#include "client/files/crc32c.h"

#include <array>
#include <cstddef>

namespace gpupool::client {
namespace {

// The polynomial 0x1edc6f41 with its bits reversed, as bits are taken from the
// low end of a byte first.
constexpr uint32_t kCastagnoli = 0x82f63b78;

// Returns the remainders of all bytes.
constexpr std::array<uint32_t, 256> RemaindersOfBytes() {
  std::array<uint32_t, 256> table = {};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) {
      rest = (rest >> 1) ^ ((rest & 1) != 0 ? kCastagnoli : 0);
    }
    table[byte] = rest;
  }
  return table;
}

}  // namespace

uint32_t Crc32c(absl::string_view bytes) {
  static constexpr std::array<uint32_t, 256> kTable = RemaindersOfBytes();
  uint32_t crc = ~uint32_t{0};
  for (const char c : bytes) {
    crc = (crc >> 8) ^ kTable[(crc ^ static_cast<uint8_t>(c)) & 0xff];
  }
  return ~crc;
}

}  // namespace gpupool::client
