// The characters of UTF-8 text (RFC 3629). Pure functions.
#pragma once

#include <cstddef>
#include <string_view>

namespace gpupool::engine {

// Returns the bytes of the character at the front of the text, and 0 if the
// text is empty or does not begin with a character.
size_t Utf8CharacterBytes(std::string_view text);

bool IsUtf8(std::string_view text);

// Returns the first `bytes` bytes of UTF-8 text, or fewer at the end of a
// character.
std::string_view CutUtf8(std::string_view text, size_t bytes);

}  // namespace gpupool::engine
