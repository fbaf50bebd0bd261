#include "server/api/validation/unread_table.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "server/api/validation/convert.h"

namespace gpupool::server {
namespace {

struct Word {
  absl::string_view text;
  absl::string_view format;
};

constexpr Word kEndings[] = {
    {".parquet", "a Parquet"}, {".pq", "a Parquet"},
    {".arrow", "an Arrow"},    {".ipc", "an Arrow"},
    {".arrows", "an Arrow"},   {".feather", "a Feather"},
};

// First bytes of files, by the descriptions of the formats. Feather 2 is the
// file format of Arrow.
constexpr Word kMagics[] = {
    {"PAR1", "a Parquet"},
    {"PARE", "an encrypted Parquet"},
    {"ARROW1", "an Arrow or Feather"},
    {"FEA1", "a Feather"},
};

constexpr size_t kBytesAfterMagic = 8;

bool IsControl(char byte) {
  const auto value = static_cast<unsigned char>(byte);
  return value < 0x20 && byte != '\t' && byte != '\n' && byte != '\r';
}

absl::Status Refusal(absl::string_view file_name, absl::string_view format) {
  return absl::InvalidArgumentError(absl::StrCat(
      "file ", Quoted(file_name), " is ", format,
      " file, which gpupool does not read; convert it to JSON lines or NPZ, as "
      "with `python3 examples/from_parquet.py FILE OUT.jsonl` "
      "(docs/parquet.md)"));
}

}  // namespace

absl::Status CheckTableName(absl::string_view file_name) {
  const std::string lower = absl::AsciiStrToLower(file_name);
  const absl::string_view name = absl::StripSuffix(lower, ".gz");
  const auto* found = std::find_if(
      std::begin(kEndings), std::end(kEndings),
      [name](const Word& ending) { return absl::EndsWith(name, ending.text); });
  if (found == std::end(kEndings)) return absl::OkStatus();
  return Refusal(file_name, found->format);
}

absl::Status CheckTableBytes(absl::string_view file_name,
                             absl::string_view first_bytes) {
  for (const Word& magic : kMagics) {
    if (!absl::StartsWith(first_bytes, magic.text)) continue;
    // A CSV file may begin with a name such as PAR1. Text has no such bytes.
    const absl::string_view after =
        first_bytes.substr(magic.text.size(), kBytesAfterMagic);
    if (absl::c_any_of(after, IsControl)) {
      return Refusal(file_name, magic.format);
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
