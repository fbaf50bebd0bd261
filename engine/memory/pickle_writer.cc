#include "engine/memory/pickle_writer.h"

#include <utility>

#include "engine/base/check.h"
#include "engine/base/utf8.h"

namespace gpupool::engine {
namespace {

// The most values of a list between two marks; see pickle_writer.h.
constexpr int kBatch = 1000;

void AppendLittleEndian(std::string& bytes, uint64_t value, int count) {
  for (int i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(value >> (8 * i)));
  }
}

std::string ToUtf8(absl::string_view text) {
  std::string clean;
  for (size_t at = 0; at < text.size();) {
    const size_t bytes =
        Utf8CharacterBytes({text.data() + at, text.size() - at});
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
