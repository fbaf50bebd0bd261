#include "server/trace/trace_context.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"

namespace gpupool::server {
namespace {

// Layout of `traceparent`: version "-" trace "-" span "-" flags.
constexpr size_t kTraceAt = 3;
constexpr size_t kSpanAt = 36;
constexpr size_t kFlagsAt = 53;
constexpr size_t kParentBytes = 55;
constexpr uint8_t kSampledFlag = 1;

// Returns the value of a lower-case hex digit; -1 for another character.
int DigitOf(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

// Reads `count` bytes in lower-case hex. Returns false at another character.
bool ReadHex(absl::string_view text, uint8_t* bytes, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    const int high = DigitOf(text[2 * i]);
    const int low = DigitOf(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    bytes[i] = static_cast<uint8_t>(high << 4 | low);
  }
  return true;
}

template <size_t kBytes>
std::string HexOf(const std::array<uint8_t, kBytes>& bytes) {
  return absl::BytesToHexString(absl::string_view(
      reinterpret_cast<const char*>(bytes.data()), bytes.size()));
}

bool IsPassable(absl::string_view state) {
  return state.size() <= kLongestTraceState &&
         std::all_of(state.begin(), state.end(),
                     [](char c) { return c >= 0x20 && c <= 0x7e; });
}

}  // namespace

std::optional<SpanContext> ReadTraceHeaders(const TraceHeaders& headers) {
  const absl::string_view text = headers.parent;
  if (text.size() < kParentBytes || text.size() > kLongestTraceParent ||
      text[kTraceAt - 1] != '-' || text[kSpanAt - 1] != '-' ||
      text[kFlagsAt - 1] != '-') {
    return std::nullopt;
  }
  uint8_t version = 0;
  uint8_t flags = 0;
  SpanContext context;
  if (!ReadHex(text, &version, 1) ||
      !ReadHex(text.substr(kTraceAt), context.trace.bytes.data(),
               context.trace.bytes.size()) ||
      !ReadHex(text.substr(kSpanAt), context.span.bytes.data(),
               context.span.bytes.size()) ||
      !ReadHex(text.substr(kFlagsAt), &flags, 1)) {
    return std::nullopt;
  }
  // Later versions may add fields behind a dash. Version ff is forbidden.
  const bool longer = text.size() > kParentBytes;
  if (version == 0xff || (version == 0 && longer) ||
      (longer && text[kParentBytes] != '-')) {
    return std::nullopt;
  }
  if (!IsSet(context.trace) || !IsSet(context.span)) return std::nullopt;
  context.sampled = (flags & kSampledFlag) != 0;
  if (context.sampled && IsPassable(headers.state)) {
    context.state = std::string(headers.state);
  }
  return context;
}

std::string TraceParentOf(const SpanContext& context) {
  return absl::StrCat("00-", HexOf(context.trace.bytes), "-",
                      HexOf(context.span.bytes), "-",
                      context.sampled ? "01" : "00");
}

SpanId DerivedSpanId(const TraceId& trace, absl::string_view key) {
  const std::string digest =
      engine::Sha256Hex(absl::StrCat(HexOf(trace.bytes), "/", key));
  SpanId id;
  ReadHex(digest, id.bytes.data(), id.bytes.size());
  if (!IsSet(id)) id.bytes[0] = 1;
  return id;
}

}  // namespace gpupool::server
