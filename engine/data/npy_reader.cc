#include "engine/data/npy_reader.h"

#include <array>
#include <optional>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/base/tensor_limits.h"

namespace gpupool::engine {
namespace {

// Bounds the memory for headers of untrusted files.
constexpr size_t kMaxHeaderBytes = 64 << 10;

// Returns an error that names the key, quotes its text and adds the remedy.
absl::Status Bad(absl::string_view key, absl::string_view found,
                 absl::string_view remedy) {
  return absl::InvalidArgumentError(
      absl::StrCat("NPY header: ", key, " is \"",
                   absl::CHexEscape(found.substr(0, 60)), "\"; ", remedy));
}

// Returns the text of the value of 'key', which ends at a comma or brace. A
// tuple is returned without its parentheses.
absl::StatusOr<absl::string_view> Field(absl::string_view header,
                                        absl::string_view key) {
  const std::string quoted = absl::StrCat("'", key, "'");
  const size_t at = header.find(quoted);
  if (at == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("NPY header: ", quoted, " is missing"));
  }
  absl::string_view rest = header.substr(at + quoted.size());
  rest = absl::StripLeadingAsciiWhitespace(rest);
  if (!absl::ConsumePrefix(&rest, ":")) {
    return absl::InvalidArgumentError(
        absl::StrCat("NPY header: no ':' behind ", quoted));
  }
  rest = absl::StripLeadingAsciiWhitespace(rest);
  const bool tuple = absl::ConsumePrefix(&rest, "(");
  const size_t end = tuple ? rest.find(')') : rest.find_first_of(",}");
  if (end == absl::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("NPY header: ", quoted, " has no end"));
  }
  return absl::StripAsciiWhitespace(rest.substr(0, end));
}

// Sets element type and byte order from a text such as '<f4', with its quotes.
absl::Status SetType(absl::string_view text, ArrayHeader& header) {
  constexpr absl::string_view kRemedy =
      "save bool, int8 to int64, uint8 to uint64, or float16 to float64";
  if (text.size() != 5 || text[0] != '\'' || text[4] != '\'') {
    return Bad("'descr'", text, kRemedy);
  }
  // '<' little-endian, '>' big-endian, '|' single bytes, '=' native order.
  const char order = text[1];
  if (order != '<' && order != '>' && order != '|' && order != '=') {
    return Bad("'descr'", text, kRemedy);
  }
  header.big_endian = order == '>';
  const std::optional<ElementType> type = ElementTypeOfNumpy(text.substr(2, 2));
  if (!type.has_value()) return Bad("'descr'", text, kRemedy);
  header.type = *type;
  return absl::OkStatus();
}

absl::Status SetShape(absl::string_view text, ArrayHeader& header) {
  for (absl::string_view part : absl::StrSplit(text, ',')) {
    part = absl::StripAsciiWhitespace(part);
    if (part.empty()) continue;  // after the comma of "(3,)"
    int64_t size;
    if (!absl::SimpleAtoi(part, &size)) {
      return Bad("'shape'", text, "whole numbers are needed");
    }
    header.shape.push_back(size);
  }
  if (header.shape.empty() || header.shape.size() > kMaxRank) {
    return Bad("'shape'", text,
               absl::StrCat("1 to ", kMaxRank, " dimensions are possible"));
  }
  return CheckedElementCount(header.shape).status();
}

// Checks magic and version, and returns the dictionary as text.
absl::StatusOr<std::string> ReadHeaderText(ByteStream& stream) {
  std::array<char, 8> start;
  RETURN_IF_ERROR(ReadExactly(stream, absl::MakeSpan(start)));
  if (absl::string_view(start.data(), 6) != "\x93NUMPY") {
    return absl::InvalidArgumentError(
        "is not an NPY array: it does not begin with \\x93NUMPY");
  }
  const int version = start[6];
  if (version < 1 || version > 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("has NPY version ", version, "; 1, 2 and 3 are known"));
  }
  std::array<char, 4> length_bytes = {};
  // Version 1 has a length of two bytes, later ones of four.
  RETURN_IF_ERROR(ReadExactly(
      stream, absl::MakeSpan(length_bytes).first(version == 1 ? 2 : 4)));
  uint32_t length = 0;
  for (int i = 3; i >= 0; --i) {
    // Little-endian; two bytes leave zeros above them.
    length = length << 8 | static_cast<uint8_t>(length_bytes[i]);
  }
  if (length > kMaxHeaderBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "NPY header of ", length, " bytes is longer than ", kMaxHeaderBytes));
  }
  std::string text(length, '\0');
  RETURN_IF_ERROR(ReadExactly(stream, absl::MakeSpan(text.data(), length)));
  return text;
}

}  // namespace

absl::StatusOr<ArrayHeader> ReadNpyHeader(ByteStream& stream) {
  ASSIGN_OR_RETURN(const std::string text, ReadHeaderText(stream));
  ArrayHeader header;
  ASSIGN_OR_RETURN(const absl::string_view type, Field(text, "descr"));
  RETURN_IF_ERROR(SetType(type, header));
  ASSIGN_OR_RETURN(const absl::string_view order, Field(text, "fortran_order"));
  if (order != "False") {
    return Bad("'fortran_order'", order,
               "save numpy.ascontiguousarray(array) instead");
  }
  ASSIGN_OR_RETURN(const absl::string_view shape, Field(text, "shape"));
  RETURN_IF_ERROR(SetShape(shape, header));
  return header;
}

}  // namespace gpupool::engine
