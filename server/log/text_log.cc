#include "server/log/text_log.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "spdlog/details/log_msg.h"
#include "spdlog/pattern_formatter.h"

namespace gpupool::server {
namespace {

bool IsOfName(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
}

// Returns whether a text begins with a blank and "name=".
bool BeginsField(absl::string_view text) {
  if (!absl::StartsWith(text, " ")) return false;
  size_t end = 1;
  while (end < text.size() && IsOfName(text[end])) ++end;
  return end > 1 && end < text.size() && text[end] == '=';
}

// Returns whether the quote at `at` opens a value.
bool OpensValue(absl::string_view message, size_t at) {
  return at >= 2 && message[at - 1] == '=' && IsOfName(message[at - 2]);
}

bool EndsValue(absl::string_view behind) {
  return behind.empty() || BeginsField(behind);
}

void AppendHex(unsigned char byte, std::string* text) {
  absl::StrAppend(text, "\\x", absl::Hex(byte, absl::kZeroPad2));
}

// Appends a character that is neither a quote nor a backslash. Returns how many
// bytes it has.
size_t AppendCharacter(absl::string_view rest, std::string* text) {
  const auto byte = static_cast<unsigned char>(rest[0]);
  if (byte == '\n' || byte == '\r' || byte == '\t') {
    absl::StrAppend(text, byte == '\n' ? "\\n" : byte == '\r' ? "\\r" : "\\t");
    return 1;
  }
  if (byte < 0x20 || byte == 0x7f) {
    AppendHex(byte, text);
    return 1;
  }
  if (byte == 0xc2 && rest.size() > 1) {
    const auto next = static_cast<unsigned char>(rest[1]);
    if (next >= 0x80 && next <= 0x9f) {
      AppendHex(byte, text);
      AppendHex(next, text);
      return 2;
    }
  }
  text->push_back(rest[0]);
  return 1;
}

class TextFormatter : public spdlog::formatter {
 public:
  TextFormatter(std::string pattern, spdlog::pattern_time_type time)
      : pattern_(std::move(pattern)), time_(time), lines_(pattern_, time) {}

  void format(const spdlog::details::log_msg& message,
              spdlog::memory_buf_t& out) override {
    const std::string text =
        EscapedForText({message.payload.data(), message.payload.size()});
    spdlog::details::log_msg escaped = message;
    escaped.payload = spdlog::string_view_t(text.data(), text.size());
    lines_.format(escaped, out);
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<TextFormatter>(pattern_, time_);
  }

 private:
  const std::string pattern_;
  const spdlog::pattern_time_type time_;
  spdlog::pattern_formatter lines_;
};

}  // namespace

std::string EscapedForText(absl::string_view message) {
  std::string text;
  text.reserve(message.size());
  bool quoted = false;
  for (size_t at = 0; at < message.size();) {
    const char c = message[at];
    if (c == '"') {
      if (!quoted) {
        quoted = OpensValue(message, at);
      } else if (EndsValue(message.substr(at + 1))) {
        quoted = false;
      } else {
        text.push_back('\\');
      }
      text.push_back(c);
      ++at;
    } else if (c == '\\') {
      text.append(quoted ? 2 : 1, c);
      ++at;
    } else {
      at += AppendCharacter(message.substr(at), &text);
    }
  }
  return text;
}

std::unique_ptr<spdlog::formatter> TextLogFormatter(
    const std::string& pattern, spdlog::pattern_time_type time) {
  return std::make_unique<TextFormatter>(pattern, time);
}

}  // namespace gpupool::server
