#include "client/files/trace_file.h"

#include <zlib.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "client/text/text_file.h"

namespace gpupool::client {
namespace {

constexpr absl::string_view kGzipMagic = "\x1f\x8b";
constexpr int kGzipWindow = 15 + 16;  // zlib: expect a gzip header

absl::Status Broken(const std::string& path, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, " is not a complete gzip file: ", why, "; copy it again"));
}

// Decompresses one gzip member after the other, like gzip(1).
absl::StatusOr<std::string> Gunzip(const std::string& path,
                                   absl::string_view bytes, size_t limit) {
  z_stream stream{};
  if (inflateInit2(&stream, kGzipWindow) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to decompress");
  }
  const absl::Cleanup end = [&] { inflateEnd(&stream); };
  std::string text;
  std::string buffer(size_t{1} << 16, '\0');
  int status = Z_OK;
  while (status != Z_STREAM_END || stream.avail_in > 0 || !bytes.empty()) {
    if (stream.avail_in == 0) {
      if (bytes.empty()) return Broken(path, "it ends too early");
      // zlib counts its input with 32 bits.
      const size_t count = std::min<size_t>(bytes.size(), size_t{1} << 30);
      // zlib takes the input as non-const but does not write to it.
      stream.next_in =
          reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
      stream.avail_in = static_cast<uInt>(count);
      bytes.remove_prefix(count);
    }
    // The next member starts with a fresh state.
    if (status == Z_STREAM_END) inflateReset(&stream);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    status = inflate(&stream, Z_NO_FLUSH);
    if (status != Z_OK && status != Z_STREAM_END) {
      return Broken(path, stream.msg != nullptr ? stream.msg : "bad data");
    }
    text.append(buffer, 0, buffer.size() - stream.avail_out);
    if (text.size() > limit) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " holds more than ", limit,
                       " bytes when decompressed; is it the right file?"));
    }
  }
  return text;
}

}  // namespace

absl::StatusOr<std::string> ReadTraceFile(const std::string& path,
                                          size_t limit_bytes) {
  absl::StatusOr<std::string> bytes = ReadTextFile(path, limit_bytes);
  if (!bytes.ok() || !absl::StartsWith(*bytes, kGzipMagic)) return bytes;
  return Gunzip(path == "-" ? "standard input" : path, *bytes, limit_bytes);
}

}  // namespace gpupool::client
