// The format of `--help`: lines of at most 80 columns, verbs with the first
// sentence of their description, and options without the parser's internals.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace CLI {
class FormatterBase;
}

namespace gpupool::client {

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter();

// Breaks `text` at spaces into lines of at most `width` columns. Each line
// after the first is indented by `indent` spaces. Line ends in `text` stay.
std::string Wrap(absl::string_view text, int width, int indent);

}  // namespace gpupool::client
