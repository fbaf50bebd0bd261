// Where the command line writes: results to `out`, messages to `err`.
//
// Thread-safety: a Console belongs to one thread. Borrows the streams.
#pragma once

#include <iosfwd>
#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::client {

enum class Style { kPlain, kBold, kDim, kRed, kGreen, kYellow };

struct Stream {
  std::ostream* stream = nullptr;
  bool is_terminal = false;
  bool color = false;
  int width = 80;  // columns; of a terminal
};

struct Console {
  Stream out;
  Stream err;

  // Standard output and error. Colour only on a terminal, never with a
  // non-empty NO_COLOR or TERM=dumb.
  static Console Standard();
};

// `text` in escape sequences when the stream takes colour.
std::string Paint(const Stream& stream, Style style, absl::string_view text);

}  // namespace gpupool::client
