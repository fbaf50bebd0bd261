// Makes files in the formats that the readers read.
#pragma once

#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace gpupool::engine::files {

inline std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

inline void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string Little(uint64_t value, int size) {
  std::string bytes;
  for (int i = 0; i < size; ++i, value >>= 8) {
    bytes += static_cast<char>(value & 0xff);
  }
  return bytes;
}

inline std::string Big(uint64_t value, int size) {
  std::string bytes = Little(value, size);
  return {bytes.rbegin(), bytes.rend()};
}

// Compresses `text`. window_bits is 31 for gzip and -15 for raw deflate.
inline std::string Deflate(const std::string& text, int window_bits) {
  z_stream zlib = {};
  deflateInit2(&zlib, 9, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&zlib, text.size()) + 32, '\0');
  zlib.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  zlib.avail_in = static_cast<uInt>(text.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  deflate(&zlib, Z_FINISH);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

inline std::string Gzip(const std::string& text) { return Deflate(text, 31); }

inline std::string Npy(const std::string& descr, const std::string& shape,
                       const std::string& elements,
                       const std::string& order = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order +
                       ", 'shape': " + shape + ", }\n";
  return "\x93NUMPY" + std::string("\x01\x00", 2) + Little(header.size(), 2) +
         header + elements;
}

struct Member {
  std::string name;
  std::string content;
};

// Makes a zip archive. `spoil` is added to every checksum.
inline std::string Zip(const std::vector<Member>& members, bool deflated,
                       uint32_t spoil = 0) {
  std::string body, directory;
  for (const Member& member : members) {
    const std::string packed =
        deflated ? Deflate(member.content, -15) : member.content;
    const uint32_t crc =
        spoil + static_cast<uint32_t>(crc32(
                    0, reinterpret_cast<const Bytef*>(member.content.data()),
                    static_cast<uInt>(member.content.size())));
    const std::string common = Little(20, 2) + Little(0, 2) +
                               Little(deflated ? 8 : 0, 2) + Little(0, 4) +
                               Little(crc, 4) + Little(packed.size(), 4) +
                               Little(member.content.size(), 4) +
                               Little(member.name.size(), 2) + Little(0, 2);
    directory += Little(0x02014b50, 4) + Little(20, 2) + common +
                 Little(0, 2 + 2 + 2 + 4) + Little(body.size(), 4) +
                 member.name;
    body += Little(0x04034b50, 4) + common + member.name + packed;
  }
  return body + directory + Little(0x06054b50, 4) + Little(0, 4) +
         Little(members.size(), 2) + Little(members.size(), 2) +
         Little(directory.size(), 4) + Little(body.size(), 4) + Little(0, 2);
}

}  // namespace gpupool::engine::files
