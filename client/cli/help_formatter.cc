#include "client/cli/help_formatter.h"

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace gpupool::client {
namespace {

constexpr int kWidth = 80;

// Returns "  name     text", with the text wrapped in its column.
std::string Entry(const std::string& name, absl::string_view text, int column) {
  std::string line = absl::StrCat("  ", name);
  if (text.empty()) return absl::StrCat(line, "\n");
  if (static_cast<int>(line.size()) + 1 > column) {
    absl::StrAppend(&line, "\n", std::string(column, ' '));
  } else {
    line.resize(static_cast<size_t>(column), ' ');
  }
  return absl::StrCat(line, Wrap(text, kWidth - column, column), "\n");
}

// Returns whether every name is a word of the text.
bool NamesAll(absl::string_view text, const std::vector<std::string>& names) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(text, absl::ByAnyChar(" ,.:;()"));
  return absl::c_all_of(names, [&](const std::string& name) {
    return absl::c_linear_search(words, name);
  });
}

class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_subcommand(const CLI::App* verb) const override {
    const std::string description = verb->get_description();
    absl::string_view first = description;
    first = absl::StripSuffix(first.substr(0, first.find(". ")), ".");
    return Entry(verb->get_name(), first, 14);
  }

  std::string make_description(const CLI::App* app) const override {
    return absl::StrCat(Wrap(app->get_description(), kWidth, 0), "\n\n");
  }

  std::string make_footer(const CLI::App* app) const override {
    return absl::StrCat(app->get_footer(), "\n");
  }

  std::string make_option_opts(const CLI::Option* option) const override {
    // The part of "STATE:{a,b}" before the list. The text explains the list.
    const std::string type = option->get_type_name();
    return type.empty() ? ""
                        : absl::StrCat(" ", type.substr(0, type.find(':')));
  }

  std::string make_option(const CLI::Option* option,
                          bool is_positional) const override {
    std::string text = make_option_desc(option);
    const std::string type = option->get_type_name();
    const size_t list = type.find('{');
    if (list != std::string::npos) {
      const auto names = CLI::detail::split(
          type.substr(list + 1, type.size() - list - 2), ',');
      if (!NamesAll(text, names)) {
        absl::StrAppend(&text, ": ", CLI::detail::join(names, ", "));
      }
    }
    if (is_positional) return Entry(option->get_name(true), text, 26);
    return Entry(
        absl::StrCat(make_option_name(option, false), make_option_opts(option)),
        text, 26);
  }
};

}  // namespace

std::string Wrap(absl::string_view text, int width, int indent) {
  std::string wrapped;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!wrapped.empty()) {
      absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
    }
    int column = 0;
    for (absl::string_view word : absl::StrSplit(line, ' ')) {
      const int size = static_cast<int>(word.size());
      if (column > 0 && column + 1 + size > width) {
        absl::StrAppend(&wrapped, "\n", std::string(indent, ' '));
        column = 0;
      }
      absl::StrAppend(&wrapped, column > 0 ? " " : "", word);
      column += size + (column > 0 ? 1 : 0);
    }
  }
  return wrapped;
}

std::shared_ptr<CLI::FormatterBase> MakeHelpFormatter() {
  return std::make_shared<HelpFormatter>();
}

}  // namespace gpupool::client
