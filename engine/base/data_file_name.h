// The formats of data sets by the names of their files, for the daemon and the
// engine. Pure.
#pragma once

#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace gpupool::engine {

// Returns whether the name is one of JSON lines: ".jsonl" or ".ndjson", in any
// case and also with ".gz".
inline bool IsJsonLinesName(absl::string_view file_name) {
  const std::string lower = absl::AsciiStrToLower(file_name);
  const absl::string_view name = absl::StripSuffix(lower, ".gz");
  return absl::EndsWith(name, ".jsonl") || absl::EndsWith(name, ".ndjson");
}

// Returns the format for a name's ending: ".csv", ".npy", ".npz", ".idx",
// ".txt" and "ubyte", in any case and also with ".gz", and ".tar". JSON lines
// have the format CSV, of rows in lines. Returns the first value of `Format`,
// "unspecified", for other names. `Format` is the enum DatasetFormat, which
// this library does not know.
template <typename Format>
Format FormatOfFileName(absl::string_view file_name) {
  if (IsJsonLinesName(file_name)) return Format::CSV;
  const std::string lower = absl::AsciiStrToLower(file_name);
  const absl::string_view name = absl::StripSuffix(lower, ".gz");
  if (absl::EndsWith(name, ".csv")) return Format::CSV;
  if (absl::EndsWith(name, ".idx") || absl::EndsWith(name, "ubyte")) {
    return Format::IDX;
  }
  if (absl::EndsWith(name, ".npy")) return Format::NPY;
  if (absl::EndsWith(name, ".npz")) return Format::NPZ;
  if (absl::EndsWith(name, ".txt")) return Format::TEXT;
  // Images are compressed already, so .tar.gz is none.
  return absl::EndsWith(lower, ".tar") ? Format::IMAGES : Format();
}

}  // namespace gpupool::engine
