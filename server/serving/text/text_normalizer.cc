#include "server/serving/text/text_normalizer.h"

#include <locale.h>
#include <wctype.h>

#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"

namespace gpupool::server {
namespace {

using Normalizer = v1::TextProgram::Normalizer;

// Most bytes of a character in UTF-8 for one byte of another case's.
constexpr uint64_t kMostGrowth = 3;

// Returns the locale with the mappings of Unicode; null if the system has none.
locale_t UnicodeLocale() {
  static const locale_t locale =
      newlocale(LC_CTYPE_MASK, "C.UTF-8", static_cast<locale_t>(nullptr));
  return locale;
}

// Returns the character at the front, which has `bytes` bytes.
uint32_t DecodeCharacter(absl::string_view text, size_t bytes) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (bytes == 1) return first;
  uint32_t code = first & (0x7fU >> bytes);
  for (size_t i = 1; i < bytes; ++i) {
    code = code << 6 | (static_cast<unsigned char>(text[i]) & 0x3fU);
  }
  return code;
}

void AppendCharacter(uint32_t code, std::string& out) {
  if (code < 0x80) {
    out.push_back(static_cast<char>(code));
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  constexpr uint32_t kLeads[] = {0xc0, 0xe0, 0xf0};
  out.push_back(static_cast<char>(kLeads[more - 1] | code >> (6 * more)));
  for (int i = more - 1; i >= 0; --i) {
    out.push_back(static_cast<char>(0x80U | (code >> (6 * i) & 0x3fU)));
  }
}

bool IsAscii(absl::string_view text) {
  for (const char c : text) {
    if (!absl::ascii_isascii(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

uint32_t ChangeCharacter(uint32_t code, bool lower) {
  const locale_t locale = UnicodeLocale();
  if (locale == static_cast<locale_t>(nullptr)) return code;
  const auto wide = static_cast<wint_t>(code);
  return static_cast<uint32_t>(lower ? towlower_l(wide, locale)
                                     : towupper_l(wide, locale));
}

}  // namespace

std::string ChangeCase(absl::string_view text, Normalizer::Case change) {
  if (change == Normalizer::KEEP) return std::string(text);
  const bool lower = change == Normalizer::LOWER;
  if (IsAscii(text)) {
    return lower ? absl::AsciiStrToLower(text) : absl::AsciiStrToUpper(text);
  }
  std::string changed;
  changed.reserve(text.size());
  while (!text.empty()) {
    const size_t bytes = engine::Utf8CharacterBytes({text.data(), text.size()});
    if (bytes == 0) {
      changed.push_back(text[0]);
      text.remove_prefix(1);
      continue;
    }
    AppendCharacter(ChangeCharacter(DecodeCharacter(text, bytes), lower),
                    changed);
    text.remove_prefix(bytes);
  }
  return changed;
}

TextNormalizer::TextNormalizer(Normalizer options)
    : options_(std::move(options)) {
  for (const std::string& word : options_.stopwords()) {
    stopwords_.insert(
        options_.case_sensitive() ? word : ChangeCase(word, Normalizer::LOWER));
  }
}

bool TextNormalizer::IsStopword(absl::string_view text) const {
  if (stopwords_.empty()) return false;
  if (options_.case_sensitive()) return stopwords_.contains(text);
  return stopwords_.contains(ChangeCase(text, Normalizer::LOWER));
}

absl::StatusOr<TextTensor> TextNormalizer::Run(const TextTensor& tensor,
                                               TextMemory& memory) const {
  const size_t rank = tensor.shape.size();
  const bool fits = tensor.kind() == TextKind::kText &&
                    (rank == 1 || (rank == 2 && tensor.shape[0] == 1));
  if (!fits) {
    return engine::Refuse("takes texts of the shape [C] or [1,C], and got [",
                          absl::StrJoin(tensor.shape, ","), "]");
  }
  RETURN_IF_ERROR(memory.TakeElements(tensor.size() + 1));
  TextTensor result;
  result.type = v1::STRING;
  result.shape = tensor.shape;
  for (const absl::string_view text : tensor.texts) {
    if (IsStopword(text)) continue;
    if (options_.change() == Normalizer::KEEP) {
      result.texts.push_back(text);
      continue;
    }
    RETURN_IF_ERROR(memory.Take(kMostGrowth * text.size()));
    result.texts.push_back(memory.Keep(ChangeCase(text, options_.change())));
  }
  if (result.texts.empty()) result.texts.emplace_back("");
  result.shape.back() = static_cast<int64_t>(result.texts.size());
  return result;
}

}  // namespace gpupool::server
