// How a word of the user's appears in a message. Pure; from any thread.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::client {

// `word` between single quotes: at most 40 bytes of it, then "...", and what
// would move a terminal's cursor as an escape such as \n or \x1b. The wrong
// file may have been named, so a word can be a whole file or be binary.
std::string Quoted(absl::string_view word);

}  // namespace gpupool::client
