#include "engine/data/bytes/zip_archive.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

constexpr uint32_t kEndSignature = 0x06054b50;
constexpr uint32_t kEnd64Signature = 0x06064b50;
constexpr uint32_t kEnd64LocatorSignature = 0x07064b50;
constexpr uint32_t kCentralSignature = 0x02014b50;
constexpr uint32_t kLocalSignature = 0x04034b50;
constexpr uint16_t kZip64Tag = 1;
// The mark of a number that the zip64 field holds.
constexpr uint32_t kIn64 = 0xffffffff;

absl::Status Broken(absl::string_view what) {
  return absl::InvalidArgumentError(absl::StrCat("zip archive: ", what));
}

// Reads little-endian numbers front to back. After the end everything reads as
// zero and ok() is false.
class Cursor {
 public:
  Cursor(absl::string_view bytes, uint64_t offset) : bytes_(bytes) {
    Skip(offset);
  }
  bool ok() const { return ok_; }
  uint64_t left() const { return bytes_.size(); }
  absl::string_view Take(uint64_t count) {
    if (count > bytes_.size()) {
      ok_ = false;
      bytes_ = {};
      return {};
    }
    absl::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }
  void Skip(uint64_t count) { Take(count); }
  uint64_t Number(int size) {
    absl::string_view raw = Take(static_cast<uint64_t>(size));
    uint64_t value = 0;
    for (size_t i = raw.size(); i > 0; --i) {
      value = value << 8 | static_cast<uint8_t>(raw[i - 1]);
    }
    return value;
  }
  uint16_t U16() { return static_cast<uint16_t>(Number(2)); }
  uint32_t U32() { return static_cast<uint32_t>(Number(4)); }
  uint64_t U64() { return Number(8); }

 private:
  absl::string_view bytes_;
  bool ok_ = true;
};

struct Directory {
  uint64_t members = 0;
  uint64_t offset = 0;
};

// Reads the zip64 end record, whose locator is right before the end record.
absl::StatusOr<Directory> FindDirectory64(absl::string_view bytes,
                                          uint64_t end_offset) {
  constexpr uint64_t kLocatorBytes = 20;
  if (end_offset < kLocatorBytes) return Broken("the zip64 locator is missing");
  Cursor locator(bytes, end_offset - kLocatorBytes);
  if (locator.U32() != kEnd64LocatorSignature) {
    return Broken("the zip64 locator is missing");
  }
  // The number of the disk with the record.
  locator.Skip(4);
  Cursor end(bytes, locator.U64());
  if (end.U32() != kEnd64Signature) {
    return Broken("the zip64 end record is missing");
  }
  // Size of the record, two versions, two disk numbers, members of this disk.
  end.Skip(8 + 2 + 2 + 4 + 4 + 8);
  Directory directory;
  directory.members = end.U64();
  end.Skip(8);
  directory.offset = end.U64();
  if (!end.ok()) return Broken("the zip64 end record is cut off");
  return directory;
}

// Finds the central directory through the end record.
absl::StatusOr<Directory> FindDirectory(absl::string_view bytes) {
  constexpr size_t kEndBytes = 22;
  constexpr size_t kMaxComment = 65535;
  if (bytes.size() < kEndBytes) return Broken("too short");
  const size_t last = bytes.size() - kEndBytes;
  // The end record is followed by a comment of any length up to 65535 bytes, so
  // its signature is searched from the end of the file.
  const size_t first = last > kMaxComment ? last - kMaxComment : 0;
  for (size_t offset = last + 1; offset-- > first;) {
    Cursor end(bytes, offset);
    if (end.U32() != kEndSignature) continue;
    end.Skip(2 + 2 + 2);
    Directory directory;
    directory.members = end.U16();
    end.Skip(4);
    directory.offset = end.U32();
    // All ones mean that the zip64 end record has the number.
    if (directory.members == 0xffff || directory.offset == kIn64) {
      return FindDirectory64(bytes, offset);
    }
    return directory;
  }
  return Broken("the end record is missing; the file is cut off or no archive");
}

// Replaces the sizes and the offset that the zip64 extra field holds. The field
// has only those numbers whose place in the header is all ones.
absl::Status ApplyZip64(absl::string_view extra, ZipMember& member) {
  Cursor fields(extra, 0);
  while (fields.left() >= 4) {
    const uint16_t tag = fields.U16();
    Cursor field(fields.Take(fields.U16()), 0);
    if (tag != kZip64Tag) continue;
    if (member.bytes == kIn64) member.bytes = field.U64();
    if (member.packed_bytes == kIn64) member.packed_bytes = field.U64();
    if (member.header_offset == kIn64) member.header_offset = field.U64();
    if (!field.ok()) return Broken("a zip64 field is cut off");
  }
  return fields.ok() ? absl::OkStatus() : Broken("an extra field is cut off");
}

// Gives `bytes` bytes of `source`, then checks the CRC-32.
class CheckedStream : public ByteStream {
 public:
  CheckedStream(std::unique_ptr<ByteStream> source, const ZipMember& member)
      : source_(std::move(source)), member_(member) {}

  absl::StatusOr<size_t> Read(absl::Span<char> out) override {
    const uint64_t left = member_.bytes - given_;
    const bool at_end = left == 0;
    // At the end it asks for one more byte, which must not exist.
    char extra;
    absl::Span<char> wanted =
        at_end ? absl::MakeSpan(&extra, 1)
               : out.first(std::min<uint64_t>(out.size(), left));
    ASSIGN_OR_RETURN(const size_t count, source_->Read(wanted));
    if (at_end) {
      if (count > 0) return Broken("a member is longer than announced");
      if (crc_ != member_.crc32) return Broken("a member's checksum differs");
      return 0;
    }
    if (count == 0 && !wanted.empty()) {
      return Broken("a member is shorter than announced");
    }
    Add(wanted.first(count));
    return count;
  }
  std::optional<std::string_view> InPlace() const override {
    return source_->InPlace();
  }

 private:
  void Add(absl::Span<const char> part) {
    given_ += part.size();
    crc_ = static_cast<uint32_t>(crc32_z(
        crc_, reinterpret_cast<const Bytef*>(part.data()), part.size()));
  }

  std::unique_ptr<ByteStream> source_;
  const ZipMember member_;
  uint64_t given_ = 0;
  uint32_t crc_ = 0;
};

}  // namespace

absl::StatusOr<ZipArchive> ZipArchive::Open(absl::string_view bytes) {
  ZipArchive archive(bytes);
  RETURN_IF_ERROR(archive.ReadDirectory());
  return archive;
}

absl::Status ZipArchive::ReadDirectory() {
  ASSIGN_OR_RETURN(const Directory directory, FindDirectory(bytes_));
  if (directory.members > kMaxMembers) {
    return Broken(absl::StrCat("has ", directory.members,
                               " members; the limit is ", kMaxMembers));
  }
  Cursor cursor(bytes_, directory.offset);
  for (uint64_t i = 0; i < directory.members; ++i) {
    if (cursor.U32() != kCentralSignature) {
      return Broken(absl::StrCat("directory entry ", i, " is broken"));
    }
    ZipMember member;
    // Skips the versions here, time and date below, then disk and attributes.
    cursor.Skip(2 + 2);
    const uint16_t flags = cursor.U16();
    member.method = cursor.U16();
    cursor.Skip(2 + 2);
    member.crc32 = cursor.U32();
    member.packed_bytes = cursor.U32();
    member.bytes = cursor.U32();
    const uint16_t name_bytes = cursor.U16();
    const uint16_t extra_bytes = cursor.U16();
    const uint16_t comment_bytes = cursor.U16();
    cursor.Skip(2 + 2 + 4);
    member.header_offset = cursor.U32();
    member.name = std::string(cursor.Take(name_bytes));
    RETURN_IF_ERROR(ApplyZip64(cursor.Take(extra_bytes), member));
    cursor.Skip(comment_bytes);
    if (!cursor.ok()) return Broken("the directory is cut off");
    if (flags & 1) return Broken("encrypted members cannot be read");
    members_.push_back(std::move(member));
  }
  return absl::OkStatus();
}

const ZipMember* ZipArchive::Find(absl::string_view name) const {
  auto found = std::find_if(members_.begin(), members_.end(),
                            [&](const ZipMember& m) { return m.name == name; });
  return found == members_.end() ? nullptr : &*found;
}

absl::StatusOr<std::unique_ptr<ByteStream>> ZipArchive::OpenMember(
    const ZipMember& member) const {
  // Sizes in the local header may be zero (they then follow the data), so only
  // the lengths of its name and extra field are used.
  Cursor cursor(bytes_, member.header_offset);
  if (cursor.U32() != kLocalSignature) {
    return Broken(absl::StrCat("member \"", absl::CHexEscape(member.name),
                               "\" has no local header"));
  }
  // The fields before the lengths repeat the central directory.
  cursor.Skip(22);
  const uint16_t name_bytes = cursor.U16();
  const uint16_t extra_bytes = cursor.U16();
  cursor.Skip(uint64_t{name_bytes} + extra_bytes);
  const absl::string_view content = cursor.Take(member.packed_bytes);
  if (!cursor.ok()) return Broken("a member lies outside the archive");
  const std::string_view packed(content.data(), content.size());
  std::unique_ptr<ByteStream> stream;
  if (member.method == 0) {
    stream = PlainStream(packed);
  } else if (member.method == 8) {
    stream = DeflateStream(packed);
  } else {
    return Broken(absl::StrCat("packing method ", member.method,
                               " is not supported; store or deflate"));
  }
  return std::make_unique<CheckedStream>(std::move(stream), member);
}

}  // namespace gpupool::engine
