#include "engine/data/bytes/tar_archive.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kBlockBytes = 512;
// Bounds the text of pax records and long names.
constexpr uint64_t kMaxNoteBytes = 1 << 20;
constexpr size_t kMaxTarNameBytes = 4096;

// The fields of a header block: place and length.
struct TarField {
  size_t place;
  size_t length;
};
constexpr TarField kName = {0, 100};
constexpr TarField kSize = {124, 12};
constexpr TarField kChecksum = {148, 8};
constexpr size_t kTypePlace = 156;
constexpr TarField kMagic = {257, 5};
constexpr TarField kPrefix = {345, 155};

// Returns the bytes of a field up to its first zero.
absl::string_view TarText(absl::string_view block, TarField field) {
  const absl::string_view text = block.substr(field.place, field.length);
  return text.substr(0, text.find('\0'));
}

// Returns the number of a field: octal digits between blanks, or, with the
// first bit set, a big-endian number (GNU). Nothing for anything else.
std::optional<uint64_t> TarNumber(absl::string_view block, TarField field) {
  const absl::string_view bytes = block.substr(field.place, field.length);
  uint64_t number = 0;
  if ((static_cast<uint8_t>(bytes[0]) & 0x80) != 0) {
    for (size_t i = 0; i < bytes.size(); ++i) {
      const uint8_t byte =
          static_cast<uint8_t>(bytes[i]) & (i == 0 ? 0x7f : 0xff);
      if (number >> 55 != 0) return std::nullopt;
      number = number << 8 | byte;
    }
    return number;
  }
  absl::string_view digits = TarText(block, field);
  while (absl::ConsumePrefix(&digits, " ")) {
  }
  while (absl::ConsumeSuffix(&digits, " ")) {
  }
  if (digits.empty()) return std::nullopt;
  for (const char digit : digits) {
    if (digit < '0' || digit > '7') return std::nullopt;
    number = number << 3 | static_cast<uint64_t>(digit - '0');  // <= 36 bits
  }
  return number;
}

bool ChecksumHolds(absl::string_view block) {
  const std::optional<uint64_t> wanted = TarNumber(block, kChecksum);
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlockBytes; ++i) {
    const bool own =
        i >= kChecksum.place && i < kChecksum.place + kChecksum.length;
    sum += own ? uint64_t{' '} : static_cast<uint8_t>(block[i]);
  }
  return wanted == sum;
}

std::string Shown(absl::string_view name) {
  return absl::StrCat("\"", absl::CHexEscape(name.substr(0, 200)), "\"");
}

// Returns the name without "." and empty parts.
absl::StatusOr<std::string> CleanName(absl::string_view name) {
  if (name.size() > kMaxTarNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name ", Shown(name), "... has ", name.size(),
                     " bytes, the limit is ", kMaxTarNameBytes));
  }
  if (absl::StartsWith(name, "/")) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name ", Shown(name),
                     " is absolute; make the archive with relative names, as "
                     "`tar -C FOLDER -cf FILE .` does"));
  }
  std::vector<absl::string_view> parts;
  for (const absl::string_view part : absl::StrSplit(name, '/')) {
    if (part == "..") {
      return absl::InvalidArgumentError(absl::StrCat(
          "the name ", Shown(name),
          " leaves the archive with \"..\"; make the archive from the folder "
          "itself: `tar -C FOLDER -cf FILE .`"));
    }
    if (!part.empty() && part != ".") parts.push_back(part);
  }
  return absl::StrJoin(parts, "/");
}

// Facts of the next member from records that stand before it.
struct TarNotes {
  std::optional<std::string> name;
  std::optional<uint64_t> size;
};

// Reads the records "LENGTH KEY=VALUE\n" of a pax header.
absl::Status ReadPax(absl::string_view records, TarNotes* notes) {
  while (!records.empty()) {
    const size_t blank = records.find(' ');
    uint64_t length = 0;
    if (blank == absl::string_view::npos ||
        !absl::SimpleAtoi(records.substr(0, blank), &length) ||
        length > records.size() || length < blank + 2 ||
        records[length - 1] != '\n') {
      return absl::InvalidArgumentError("a pax header is damaged");
    }
    const std::pair<absl::string_view, absl::string_view> record =
        absl::StrSplit(records.substr(blank + 1, length - blank - 2),
                       absl::MaxSplits('=', 1));
    if (record.first == "path") notes->name = std::string(record.second);
    if (record.first == "size") {
      uint64_t size = 0;
      if (!absl::SimpleAtoi(record.second, &size)) {
        return absl::InvalidArgumentError("a pax header has a broken size");
      }
      notes->size = size;
    }
    if (absl::StartsWith(record.first, "GNU.sparse.")) {
      return absl::InvalidArgumentError(
          "holds a sparse file; make the archive without --sparse");
    }
    records.remove_prefix(length);
  }
  return absl::OkStatus();
}

absl::Status RefuseType(char type, const std::string& name) {
  const char* what = type == '1' || type == '2'   ? "a link"
                     : type == '3' || type == '4' ? "a device"
                     : type == '6'                ? "a pipe"
                     : type == 'S'                ? "a sparse file"
                                   : "a member of an unknown type";
  const char* remedy =
      type == '1' || type == '2'
          ? "store the files themselves with `tar --dereference "
            "--hard-dereference`"
          : "leave it out of the archive";
  return absl::InvalidArgumentError(
      absl::StrCat(Shown(name), " is ", what,
                   ", and only files and folders are possible; ", remedy));
}

// Walks over the blocks of an archive.
class TarWalk {
 public:
  explicit TarWalk(absl::string_view archive) : rest_(archive) {}

  absl::StatusOr<std::vector<TarMember>> Run() {
    const uint64_t all = rest_.size();
    while (!rest_.empty()) {
      if (rest_.size() < kBlockBytes) return CutOff("a header");
      const absl::string_view block = rest_.substr(0, kBlockBytes);
      // Blocks of zeros end an archive. What follows is padding.
      if (block.find_first_not_of('\0') == absl::string_view::npos) break;
      if (!ChecksumHolds(block)) {
        return absl::InvalidArgumentError(absl::StrCat(
            "is no tar archive, or damaged: byte ", all - rest_.size(),
            " begins no header; make it again with `tar -cf`"));
      }
      rest_.remove_prefix(kBlockBytes);
      RETURN_IF_ERROR(Take(block));
    }
    return std::move(members_);
  }

 private:
  absl::Status Take(absl::string_view block) {
    const char type = block[kTypePlace];
    const bool note = type == 'x' || type == 'g' || type == 'L' || type == 'K';
    std::string name = NameIn(block);
    std::optional<uint64_t> size = TarNumber(block, kSize);
    if (!note) {
      if (notes_.name.has_value()) name = *std::move(notes_.name);
      if (notes_.size.has_value()) size = notes_.size;
      notes_ = {};
    }
    // Only these have content. Others may have a size all the same.
    const bool file = type == '0' || type == '\0' || type == '7';
    if (!note && type != '5' && !file) return RefuseType(type, name);
    if (type == '5') size = 0;
    if (!size.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(Shown(name),
                       " has a broken size; make the archive "
                       "again with `tar -cf`"));
    }
    if (*size > rest_.size()) return CutOff(Shown(name));
    const absl::string_view bytes = rest_.substr(0, *size);
    const uint64_t padded =
        (*size + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
    rest_.remove_prefix(std::min<uint64_t>(padded, rest_.size()));
    if (note) return TakeNote(type, bytes);
    ASSIGN_OR_RETURN(std::string clean, CleanName(name));
    // Before POSIX, a folder was a file whose name ends so.
    if (type == '5' || absl::EndsWith(name, "/")) return absl::OkStatus();
    if (members_.size() == kMaxTarMembers) {
      return absl::InvalidArgumentError(
          absl::StrCat("holds more than ", kMaxTarMembers,
                       " files; divide it into several data sets"));
    }
    members_.push_back({std::move(clean), bytes});
    return absl::OkStatus();
  }

  absl::Status TakeNote(char type, absl::string_view bytes) {
    if (bytes.size() > kMaxNoteBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("holds a header of ", bytes.size(),
                       " bytes, the limit is ", kMaxNoteBytes));
    }
    if (type == 'x') return ReadPax(bytes, &notes_);
    if (type == 'L')
      notes_.name = std::string(bytes.substr(0, bytes.find('\0')));
    return absl::OkStatus();
  }

  // Returns the name in the header itself.
  static std::string NameIn(absl::string_view block) {
    const absl::string_view name = TarText(block, kName);
    // GNU's own form ("ustar  ") has other fields in the place of the prefix.
    const bool posix = TarText(block, kMagic) == "ustar" &&
                       block[kMagic.place + kMagic.length] == '\0';
    const absl::string_view prefix =
        posix ? TarText(block, kPrefix) : absl::string_view();
    return absl::StrCat(prefix, prefix.empty() ? "" : "/", name);
  }

  static absl::Status CutOff(absl::string_view what) {
    return absl::InvalidArgumentError(absl::StrCat(
        "ends in the middle of ", what, "; copy or make the archive again"));
  }

  absl::string_view rest_;
  TarNotes notes_;
  std::vector<TarMember> members_;
};

}  // namespace

absl::StatusOr<std::vector<TarMember>> ReadTar(absl::string_view archive) {
  if (absl::StartsWith(archive, "\x1f\x8b")) {
    return absl::InvalidArgumentError(
        "is compressed with gzip; images are compressed already, so unpack it "
        "with `gunzip` and upload the .tar");
  }
  return TarWalk(archive).Run();
}

}  // namespace gpupool::engine
