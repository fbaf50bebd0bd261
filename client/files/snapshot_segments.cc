#include "client/files/snapshot_segments.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace gpupool::client {
namespace {

constexpr absl::string_view kProtocol("\x80\x02", 2);
// The begin of a dictionary whose first key is "segments" and whose value is a
// list.
constexpr absl::string_view kBegin("}(X\x08\0\0\0segments", 15);

// Returns the number that `count` bytes at `at` hold; more than the text has
// when they are not there.
size_t PickledNumberAt(absl::string_view text, size_t at, size_t count) {
  if (at + count > text.size()) return text.size();
  size_t number = 0;
  for (size_t i = count; i-- > 0;) {
    number = number << 8 | static_cast<uint8_t>(text[at + i]);
  }
  return number;
}

// Returns the length of the operation at `at` with its operand; 0 when it is
// none of pickle_writer.h.
size_t OperationBytes(absl::string_view text, size_t at) {
  switch (static_cast<uint8_t>(text[at])) {
    case '}':
    case ']':
    case '(':
    case 'u':
    case 'e':
    case 0x86:
    case 0x88:
    case 0x89:
      return 1;
    case 'K':
      return 2;
    case 'M':
      return 3;
    case 'J':
      return 5;
    case 0x8a:
      return 2 + PickledNumberAt(text, at + 1, 1);
    case 'X':
      return 5 + PickledNumberAt(text, at + 1, 4);
    default:
      return 0;
  }
}

// Returns the length of the list at the start of `text`, or 0 when it does not
// end there.
size_t ListBytes(absl::string_view text) {
  if (!absl::StartsWith(text, "]")) return 0;
  size_t at = 1;
  size_t open = 0;  // marks without their end
  // A mark after the end of a batch opens the next batch of the same list.
  while (at < text.size() && (open > 0 || text[at] == '(')) {
    const size_t bytes = OperationBytes(text, at);
    if (bytes == 0) return 0;
    if (text[at] == '(') ++open;
    if (text[at] == 'u' || text[at] == 'e') --open;
    at += bytes;
  }
  return at < text.size() ? at : 0;
}

}  // namespace

absl::StatusOr<std::string> SegmentsOf(absl::string_view pickle) {
  absl::string_view rest = pickle;
  size_t bytes = 0;
  if (absl::ConsumePrefix(&rest, kProtocol) &&
      absl::ConsumePrefix(&rest, kBegin)) {
    bytes = ListBytes(rest);
  }
  if (bytes > 0) return absl::StrCat(kProtocol, rest.substr(0, bytes), ".");
  return absl::DataLossError(absl::StrCat(
      "the server's memory dump of ", pickle.size(),
      " bytes has no list of segments in the form that this client knows; "
      "leave out --segments to get it as it is"));
}

}  // namespace gpupool::client
