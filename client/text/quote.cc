#include "client/text/quote.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace gpupool::client {
namespace {

constexpr size_t kMostBytes = 40;

// Returns the start of `word`, which never ends within a UTF-8 character.
absl::string_view Start(absl::string_view word) {
  size_t size = kMostBytes;
  while (size > kMostBytes - 4 &&
         (static_cast<unsigned char>(word[size]) & 0xC0) == 0x80) {
    --size;
  }
  return word.substr(0, size);
}

}  // namespace

std::string Printable(absl::string_view text) {
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7F) {
      escaped += c;
    } else {
      escaped += absl::CHexEscape(absl::string_view(&c, 1));
    }
  }
  return escaped;
}

std::string Quoted(absl::string_view word) {
  if (word.size() <= kMostBytes) return absl::StrCat("'", Printable(word), "'");
  return absl::StrCat("'", Printable(Start(word)), "...'");
}

}  // namespace gpupool::client
