// Quotes a user's word for a message. Pure; from any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns the text without what would move a terminal's cursor: such
// characters become escapes such as \n or \x1b. Quotes and backslashes stay as
// they are.
std::string Printable(absl::string_view text);

// Returns `word` between single quotes, cut to 40 bytes and "...". Characters
// that would move a terminal's cursor become escapes such as \n or \x1b. If the
// user has named the wrong file, the word can be a whole file or binary.
std::string Quoted(absl::string_view word);

}  // namespace gpupool::client
