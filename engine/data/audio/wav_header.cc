#include "engine/data/audio/wav_header.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

constexpr size_t kRiffBytes = 12;   // before the first chunk
constexpr size_t kChunkHeader = 8;  // id and size

// Reads `count` bytes, at most 4, as a little-endian number.
uint32_t LittleEndian(absl::string_view bytes, size_t count) {
  uint32_t number = 0;
  for (size_t i = 0; i < count; ++i) {
    number |= uint32_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return number;
}

absl::Status CheckEncoding(absl::string_view format) {
  if (format.size() < 16) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no WAV file that can be read (the chunk \"fmt \" has ",
                     format.size(),
                     " bytes, 16 or more are needed); save it again or leave "
                     "it out"));
  }
  const uint32_t encoding = LittleEndian(format, 2);
  // PCM, floating point, A-law, mu-law, and one of these by a longer name.
  for (const uint32_t known : {1u, 3u, 6u, 7u, 0xfffeu}) {
    if (encoding == known) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("has the encoding 0x", absl::Hex(encoding, absl::kZeroPad4),
                   ", which is not read; save it as PCM of 16 bits"));
}

// Checks the size of the chunk of samples against the bytes that follow.
absl::Status CheckSamples(uint32_t claimed, size_t present) {
  if (claimed == 0) {
    return absl::InvalidArgumentError(
        "has no samples; record it again or leave it out");
  }
  if (claimed <= present) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "claims ", claimed, " bytes of samples, but has ", present,
      "; it is cut off, or was written by a program that did not know its "
      "length: save it again or leave it out"));
}

}  // namespace

bool IsWav(absl::string_view bytes) {
  return bytes.size() >= kRiffBytes && absl::StartsWith(bytes, "RIFF") &&
         bytes.substr(8, 4) == "WAVE";
}

absl::Status CheckWavHeader(absl::string_view bytes) {
  bytes.remove_prefix(kRiffBytes);
  bool has_format = false;
  while (bytes.size() >= kChunkHeader) {
    const absl::string_view id = bytes.substr(0, 4);
    const uint32_t size = LittleEndian(bytes.substr(4), 4);
    bytes.remove_prefix(kChunkHeader);
    if (id == "data" && has_format) return CheckSamples(size, bytes.size());
    if (id == "data" || size > bytes.size()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is no WAV file that can be read (",
          id == "data"
              ? std::string("its samples come before their format")
              : absl::StrCat("the chunk \"", absl::CHexEscape(id), "\" claims ",
                             size, " bytes, but ", bytes.size(), " follow"),
          "); save it again or leave it out"));
    }
    if (id == "fmt ") {
      RETURN_IF_ERROR(CheckEncoding(bytes.substr(0, size)));
      has_format = true;
    }
    bytes.remove_prefix(size);
    if (size % 2 == 1 && !bytes.empty()) bytes.remove_prefix(1);
  }
  return absl::InvalidArgumentError(
      "is no WAV file that can be read (it has no chunk \"data\"); save it "
      "again or leave it out");
}

}  // namespace gpupool::engine
