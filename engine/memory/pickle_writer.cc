#include "engine/memory/pickle_writer.h"

#include <utility>

#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

// The most values of a list between two marks; see pickle_writer.h.
constexpr int kBatch = 1000;

void AppendLittleEndian(std::string& bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(value >> (8 * i)));
  }
}

bool IsContinuation(absl::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80;
}

// Returns the bytes of the UTF-8 character at `at`; 0 when it is invalid.
size_t CharacterBytes(absl::string_view text, size_t at) {
  const auto first = static_cast<uint8_t>(text[at]);
  if (first < 0x80) return 1;
  // Rejects overlong forms, surrogates and values beyond Unicode by the ranges
  // of the first and second byte (table 3-7 of the Unicode standard).
  size_t bytes = 0;
  if (first >= 0xc2 && first < 0xe0) bytes = 2;
  if (first >= 0xe0 && first < 0xf0) bytes = 3;
  if (first >= 0xf0 && first < 0xf5) bytes = 4;
  for (size_t i = 1; i < bytes; ++i) {
    if (!IsContinuation(text, at + i)) return 0;
  }
  if (bytes < 3) return bytes;
  const auto second = static_cast<uint8_t>(text[at + 1]);
  const bool overlong =
      (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  const bool outside =
      (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
  return overlong || outside ? 0 : bytes;
}

std::string ToUtf8(absl::string_view text) {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = CharacterBytes(text, at);
    if (bytes == 0) {
      clean.push_back('?');
      ++at;
      continue;
    }
    clean.append(text.data() + at, bytes);
    at += bytes;
  }
  return clean;
}

}  // namespace

PickleWriter::PickleWriter() : bytes_("\x80\x02") {}

void PickleWriter::BeforeValue() {
  if (open_.empty() || !open_.back().is_list) return;
  Container& list = open_.back();
  // A mark "(" opens each batch of values; "e" appends them to the list.
  if (list.batch == 0) bytes_.push_back('(');
  if (list.batch == kBatch) {
    bytes_.append("e(");
    list.batch = 0;
  }
  ++list.batch;
}

void PickleWriter::BeginDictionary() {
  BeforeValue();
  bytes_.append("}(");
  open_.push_back({false, 0});
}

void PickleWriter::EndDictionary() {
  GPUPOOL_CHECK(!open_.empty() && !open_.back().is_list);
  bytes_.push_back('u');
  open_.pop_back();
}

void PickleWriter::BeginList() {
  BeforeValue();
  bytes_.push_back(']');
  open_.push_back({true, 0});
}

void PickleWriter::EndList() {
  GPUPOOL_CHECK(!open_.empty() && open_.back().is_list);
  if (open_.back().batch > 0) bytes_.push_back('e');
  open_.pop_back();
}

void PickleWriter::Key(absl::string_view name) { WriteString(name); }

void PickleWriter::Number(uint64_t value) {
  BeforeValue();
  WriteNumber(value);
}

void PickleWriter::Pair(uint64_t first, uint64_t second) {
  BeforeValue();
  WriteNumber(first);
  WriteNumber(second);
  bytes_.push_back('\x86');
}

void PickleWriter::Boolean(bool value) {
  BeforeValue();
  bytes_.push_back(value ? '\x88' : '\x89');
}

void PickleWriter::String(absl::string_view text) {
  BeforeValue();
  WriteString(ToUtf8(text));
}

void PickleWriter::WriteNumber(uint64_t value) {
  if (value < 256) {
    bytes_.push_back('K');
    return AppendLittleEndian(bytes_, value, 1);
  }
  if (value < 65536) {
    bytes_.push_back('M');
    return AppendLittleEndian(bytes_, value, 2);
  }
  if (value < uint64_t{1} << 31) {
    bytes_.push_back('J');
    return AppendLittleEndian(bytes_, value, 4);
  }
  // The long form is signed, so a set top bit needs one more byte.
  const int bytes = value < uint64_t{1} << 63 ? 8 : 9;
  bytes_.push_back('\x8a');
  bytes_.push_back(static_cast<char>(bytes));
  AppendLittleEndian(bytes_, value, 8);
  if (bytes == 9) bytes_.push_back('\0');
}

void PickleWriter::WriteString(absl::string_view text) {
  bytes_.push_back('X');
  AppendLittleEndian(bytes_, text.size(), 4);
  bytes_.append(text.data(), text.size());
}

std::string PickleWriter::Take() {
  GPUPOOL_CHECK(open_.empty());
  bytes_.push_back('.');
  return std::move(bytes_);
}

}  // namespace gpupool::engine
