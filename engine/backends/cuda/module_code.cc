// The layout, all little-endian:
//   section   := { container, zero bytes up to a multiple of 8 }
//   container := u32 0xBA55ED50, u16 version, u16 header bytes, u64 bytes,
//                { entry }
//   entry     := u16 kind (1 PTX, 2 machine code), u16, u32 header bytes,
//                u64 bytes, 12 bytes, u32 capability, ..., bytes
#include "engine/backends/cuda/module_code.h"

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <set>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::cuda {
namespace {

constexpr uint32_t kMagic = 0xBA55ED50;
constexpr uint16_t kPortable = 1;
constexpr uint16_t kMachine = 2;
constexpr size_t kContainerHeader = 16;
constexpr size_t kEntryHeader = 32;
constexpr size_t kCapabilityAt = 28;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

// A number at `at`, which lies within.
template <typename Number>
Number At(absl::string_view bytes, size_t at) {
  Number number;
  std::memcpy(&number, bytes.data() + at, sizeof(number));
  return number;
}

struct Sets {
  std::set<int> machine;
  std::set<int> portable;
};

void ReadEntries(absl::string_view entries, Sets& found) {
  while (entries.size() >= kEntryHeader) {
    const auto kind = At<uint16_t>(entries, 0);
    const auto header = At<uint32_t>(entries, 4);
    const auto bytes = At<uint64_t>(entries, 8);
    const int capability =
        static_cast<int>(At<uint32_t>(entries, kCapabilityAt));
    if (header < kEntryHeader || header > entries.size() ||
        bytes > entries.size() - header) {
      return;
    }
    if (kind == kMachine) found.machine.insert(capability);
    if (kind == kPortable) found.portable.insert(capability);
    entries.remove_prefix(header + bytes);
  }
}

class File {
 public:
  explicit File(const std::string& path) : stream_(path, std::ios::binary) {}

  // Empty when the file has not so many bytes there.
  std::string Read(uint64_t at, uint64_t bytes) {
    if (bytes > kMostBytes) return "";
    std::string text(bytes, '\0');
    stream_.clear();
    stream_.seekg(static_cast<std::streamoff>(at));
    stream_.read(text.data(), static_cast<std::streamsize>(bytes));
    return stream_ ? text : "";
  }
  bool open() const { return stream_.is_open(); }

 private:
  std::ifstream stream_;
};

absl::Status Damaged(const std::string& path) {
  return absl::DataLossError(
      absl::StrCat(path, " is no shared library, or a part of one"));
}

}  // namespace

bool ModuleCode::IsCompiledFor(int capability) const {
  return std::any_of(machine.begin(), machine.end(), [&](int have) {
    return have / 10 == capability / 10 && have <= capability;
  });
}

bool ModuleCode::RunsOn(int capability) const {
  return IsCompiledFor(capability) ||
         (!portable.empty() && portable.front() <= capability);
}

ModuleCode ParseFatBinary(absl::string_view section) {
  Sets found;
  while (section.size() >= kContainerHeader) {
    if (At<uint32_t>(section, 0) != kMagic) {
      if (At<uint64_t>(section, 0) != 0) break;
      section.remove_prefix(sizeof(uint64_t));
      continue;
    }
    const auto header = At<uint16_t>(section, 6);
    const auto bytes = At<uint64_t>(section, 8);
    if (header < kContainerHeader || header > section.size() ||
        bytes > section.size() - header) {
      break;
    }
    ReadEntries(section.substr(header, bytes), found);
    section.remove_prefix(header + bytes);
  }
  return {{found.machine.begin(), found.machine.end()},
          {found.portable.begin(), found.portable.end()}};
}

absl::StatusOr<ModuleCode> ReadModuleCode(const std::string& path) {
  File file(path);
  if (!file.open()) {
    return absl::NotFoundError(absl::StrCat("cannot read ", path));
  }
  const std::string start = file.Read(0, sizeof(Elf64_Ehdr));
  if (start.empty() || std::memcmp(start.data(), ELFMAG, SELFMAG) != 0 ||
      start[EI_CLASS] != ELFCLASS64) {
    return Damaged(path);
  }
  const auto head = At<Elf64_Ehdr>(start, 0);
  const std::string table =
      file.Read(head.e_shoff, uint64_t{head.e_shnum} * sizeof(Elf64_Shdr));
  if (table.empty() || head.e_shstrndx >= head.e_shnum) return Damaged(path);
  const auto section = [&](size_t index) {
    return At<Elf64_Shdr>(table, index * sizeof(Elf64_Shdr));
  };
  const Elf64_Shdr names_at = section(head.e_shstrndx);
  const std::string names = file.Read(names_at.sh_offset, names_at.sh_size);
  if (names.empty() || names.back() != '\0') return Damaged(path);
  for (size_t i = 0; i < head.e_shnum; ++i) {
    const Elf64_Shdr at = section(i);
    if (at.sh_name >= names.size() ||
        absl::string_view(names.data() + at.sh_name) != ".nv_fatbin") {
      continue;
    }
    const std::string bytes = file.Read(at.sh_offset, at.sh_size);
    if (bytes.empty()) return Damaged(path);
    return ParseFatBinary(bytes);
  }
  return ModuleCode();
}

}  // namespace gpupool::engine::cuda
