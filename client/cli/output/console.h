// The streams of the command line: results go to `out`, messages to `err`.
//
// Thread-safety: a Console belongs to one thread. It borrows the streams.
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
  int width = 80;       // columns, if this is a terminal
  int height = 24;      // lines, if this is a terminal
  int descriptor = -1;  // of the terminal; -1: none
};

// Sets width and height to the terminal's size of this moment. Does nothing
// without a descriptor.
void UpdateSize(Stream& stream);

struct Console {
  Stream out;
  Stream err;

  // Returns standard output and standard error. Colour is used only on a
  // terminal, and never with a non-empty NO_COLOR or with TERM=dumb.
  static Console Standard();
};

// Returns `text` with the escape sequences of `style` if the stream takes
// colour, else `text`.
std::string Paint(const Stream& stream, Style style, absl::string_view text);

}  // namespace gpupool::client
