#include "client/text/utf8.h"

#include <cstddef>

namespace gpupool::client {
namespace {

// Returns the bytes of the character at the front, or 0 if there is none.
size_t CharacterBytes(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return static_cast<unsigned char>(i < text.size() ? text[i] : 0);
  };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  const size_t length = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  // The second byte excludes long forms, surrogates and numbers above 10FFFF.
  const unsigned char lowest = first == 0xE0 ? 0xA0 : first == 0xF0 ? 0x90 : 0;
  const unsigned char highest = first == 0xED   ? 0x9F
                                : first == 0xF4 ? 0x8F
                                                : 0xBF;
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  return length;
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t bytes = CharacterBytes(text);
    if (bytes == 0) return false;
    text.remove_prefix(bytes);
  }
  return true;
}

}  // namespace gpupool::client
