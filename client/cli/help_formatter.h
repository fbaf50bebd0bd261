// How `--help` looks: lines of at most 80 columns, verbs with the first
// sentence of their description, options without the parser's inner life.
#pragma once

#include <memory>
#include <string>

#include "absl/strings/string_view.h"

namespace CLI {
class FormatterBase;
}

namespace gpupool::client {

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter();

// `text` broken at spaces into lines of at most `width` columns, each after
// the first behind `indent` spaces. Line ends of `text` stay.
std::string Wrap(absl::string_view text, int width, int indent);

}  // namespace gpupool::client
