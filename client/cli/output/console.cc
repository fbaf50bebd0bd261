#include "client/cli/output/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>

#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

bool ColorAllowed() {
  const char* no_color = std::getenv("NO_COLOR");
  if (no_color != nullptr && *no_color != '\0') return false;
  const char* terminal = std::getenv("TERM");
  return terminal == nullptr || absl::string_view(terminal) != "dumb";
}

Stream Describe(std::ostream& stream, int descriptor) {
  Stream described{.stream = &stream};
  described.is_terminal = isatty(descriptor) == 1;
  described.color = described.is_terminal && ColorAllowed();
  if (described.is_terminal) described.descriptor = descriptor;
  UpdateSize(described);
  return described;
}

absl::string_view Escape(Style style) {
  switch (style) {
    case Style::kBold:
      return "\x1b[1m";
    case Style::kDim:
      return "\x1b[2m";
    case Style::kRed:
      return "\x1b[31m";
    case Style::kGreen:
      return "\x1b[32m";
    case Style::kYellow:
      return "\x1b[33m";
    case Style::kPlain:
      break;
  }
  return "";
}

}  // namespace

void UpdateSize(Stream& stream) {
  winsize size{};
  if (stream.descriptor < 0 ||
      ioctl(stream.descriptor, TIOCGWINSZ, &size) != 0) {
    return;
  }
  if (size.ws_col > 0) stream.width = size.ws_col;
  if (size.ws_row > 0) stream.height = size.ws_row;
}

Console Console::Standard() {
  return {Describe(std::cout, STDOUT_FILENO),
          Describe(std::cerr, STDERR_FILENO)};
}

std::string Paint(const Stream& stream, Style style, absl::string_view text) {
  if (!stream.color || style == Style::kPlain || text.empty()) {
    return std::string(text);
  }
  return absl::StrCat(Escape(style), text, "\x1b[0m");
}

}  // namespace gpupool::client
