#include "client/files/sample_folder.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {
namespace {

namespace fs = std::filesystem;

constexpr size_t kArchiveChunkBytes = 1 << 20;  // the most that is sent
constexpr size_t kBlockBytes = 512;
constexpr size_t kTarNameBytes = 100;
// The largest size in 11 octal digits.
constexpr uint64_t kMaxMemberBytes = (uint64_t{1} << 33) - 1;

// Returns the kind of a file by its name, or nothing for other files.
std::optional<SampleKind> KindOf(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const char* ending : {".jpg", ".jpeg", ".png"}) {
    if (absl::EndsWith(lower, ending)) return SampleKind::kImages;
  }
  for (const char* ending : {".wav", ".flac"}) {
    if (absl::EndsWith(lower, ending)) return SampleKind::kAudio;
  }
  return std::nullopt;
}

absl::Status FolderError(const std::string& path, const std::error_code& code) {
  return absl::ErrnoToStatus(code.value(), absl::StrCat("cannot read ", path));
}

// Adds one file of the folder to the list.
absl::Status AddFile(const fs::directory_entry& entry, std::string name,
                     SampleList& list) {
  const std::optional<SampleKind> kind = KindOf(name);
  if (!kind.has_value()) {
    list.left_out.push_back(std::move(name));
    return absl::OkStatus();
  }
  if (name.find('/') == std::string::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry.path().string(),
                     " lies in no class; move it into a folder with the name "
                     "of its class: ",
                     list.folder, "/CLASS/", name));
  }
  if (list.samples.empty()) list.kind = *kind;
  if (list.kind != *kind) {
    return absl::InvalidArgumentError(absl::StrCat(
        list.folder, " holds images and recordings, such as ", name, " and ",
        list.samples.front().name,
        "; a dataset has one kind: move the others to a folder of their own"));
  }
  std::error_code error;
  const uint64_t bytes = entry.file_size(error);
  if (error) return FolderError(entry.path().string(), error);
  if (bytes > kMaxMemberBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(entry.path().string(), " has ", bytes,
                     " bytes; a file has at most ", kMaxMemberBytes));
  }
  list.samples.push_back({std::move(name), bytes});
  return absl::OkStatus();
}

// Walks over the folder. Folders at its top are put into `classes`.
absl::Status Walk(SampleList& list, std::set<std::string>& classes) {
  std::error_code error;
  fs::recursive_directory_iterator walk(list.folder, error);
  for (; !error && walk != fs::recursive_directory_iterator();
       walk.increment(error)) {
    const fs::directory_entry& entry = *walk;
    const std::string base = entry.path().filename().string();
    // An error of one of these shows itself when the file is read.
    std::error_code ignored;
    const bool folder = entry.is_directory(ignored);
    if (absl::StartsWith(base, ".") || base == "__MACOSX") {
      if (folder) walk.disable_recursion_pending();
      continue;
    }
    std::string name =
        entry.path().lexically_relative(list.folder).generic_string();
    if (folder && entry.is_symlink(ignored)) {
      list.left_out.push_back(std::move(name));
    } else if (folder) {
      if (walk.depth() == 0) classes.insert(std::move(name));
    } else if (entry.is_regular_file(ignored)) {
      absl::Status added = AddFile(entry, std::move(name), list);
      if (!added.ok()) return added;
    } else {
      list.left_out.push_back(std::move(name));
    }
  }
  return error ? FolderError(list.folder, error) : absl::OkStatus();
}

// Returns a header (ustar) for content of so many bytes. Everything but name,
// size and type is constant.
std::string Header(absl::string_view name, uint64_t bytes, char type) {
  std::string block(kBlockBytes, '\0');
  const auto put = [&block](size_t place, absl::string_view text) {
    block.replace(place, text.size(), text.data(), text.size());
  };
  char size[16];
  std::snprintf(size, sizeof size, "%011llo",
                static_cast<unsigned long long>(bytes));
  put(0, name.substr(0, kTarNameBytes));
  put(100, "0000644");  // mode
  put(108, "0000000");  // user
  put(116, "0000000");  // group
  put(124, size);
  put(136, "00000000000");  // time
  put(148, "        ");     // the checksum counts as blanks
  block[156] = type;
  put(257, absl::string_view("ustar\00000", 8));
  unsigned sum = 0;
  for (const char byte : block) sum += static_cast<unsigned char>(byte);
  char checksum[16];
  std::snprintf(checksum, sizeof checksum, "%06o", sum);
  put(148, absl::string_view(checksum, 7));
  return block;
}

// Returns zeros up to the next whole block.
std::string Padding(uint64_t bytes) {
  return std::string((kBlockBytes - bytes % kBlockBytes) % kBlockBytes, '\0');
}

// Returns the headers of a file. A long name has a record of its own (pax).
std::string HeadersOf(const SampleList::Entry& entry) {
  std::string headers;
  if (entry.name.size() > kTarNameBytes) {
    const std::string field = absl::StrCat(" path=", entry.name, "\n");
    // The length counts its own digits.
    size_t length = field.size();
    while (absl::StrCat(length).size() + field.size() != length) {
      length = absl::StrCat(length).size() + field.size();
    }
    const std::string record = absl::StrCat(length, field);
    headers = absl::StrCat(Header("long-name", record.size(), 'x'), record,
                           Padding(record.size()));
  }
  return headers + Header(entry.name, entry.bytes, '0');
}

}  // namespace

absl::string_view NounOf(SampleKind kind) {
  return kind == SampleKind::kImages ? "image" : "recording";
}

absl::string_view EndingsOf(SampleKind kind) {
  return kind == SampleKind::kImages ? ".jpg, .jpeg and .png"
                                     : ".wav and .flac";
}

absl::StatusOr<SampleList> ListSamples(const std::string& folder) {
  SampleList list = {.folder = folder, .samples = {}, .left_out = {}};
  std::set<std::string> classes;
  absl::Status walked = Walk(list, classes);
  if (!walked.ok()) return walked;
  if (list.samples.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder,
        " holds no images (.jpg, .jpeg, .png) and no recordings (.wav, .flac); "
        "put them into a folder for each class: ",
        folder, "/CLASS/NAME.jpg"));
  }
  std::sort(list.samples.begin(), list.samples.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  std::sort(list.left_out.begin(), list.left_out.end());
  for (const SampleList::Entry& sample : list.samples) {
    classes.erase(sample.name.substr(0, sample.name.find('/')));
  }
  if (classes.empty()) return list;
  return absl::InvalidArgumentError(absl::StrCat(
      folder, "/", *classes.begin(), " is the folder of a class without ",
      NounOf(list.kind), "s (", EndingsOf(list.kind), "); remove it or put ",
      NounOf(list.kind), "s into it"));
}

absl::Status SampleFolder::OpenNext() {
  const SampleList::Entry& entry = list_.samples[next_++];
  absl::StatusOr<LocalFile> file =
      LocalFile::Open(absl::StrCat(list_.folder, "/", entry.name));
  if (!file.ok()) return file.status();
  file_ = std::make_unique<LocalFile>(*std::move(file));
  left_ = entry.bytes;
  pending_ += HeadersOf(entry);
  return absl::OkStatus();
}

absl::Status SampleFolder::AddMore() {
  if (file_ == nullptr && next_ == list_.samples.size()) {
    // Two blocks of zeros end an archive.
    pending_.append(2 * kBlockBytes, '\0');
    ended_ = true;
    return absl::OkStatus();
  }
  if (file_ == nullptr) return OpenNext();
  std::string part;
  absl::Status read = file_->ReadChunk(part);
  if (!read.ok()) return read;
  if (part.size() > left_ || (part.empty() && left_ > 0)) {
    return absl::DataLossError(absl::StrCat(
        file_->path(), " changed while it was uploaded; upload it again"));
  }
  left_ -= part.size();
  pending_ += part;
  if (!part.empty()) return absl::OkStatus();
  file_.reset();
  pending_ += Padding(list_.samples[next_ - 1].bytes);
  return absl::OkStatus();
}

absl::Status SampleFolder::ReadChunk(std::string& chunk) {
  while (pending_.size() < kArchiveChunkBytes && !ended_) {
    absl::Status added = AddMore();
    if (!added.ok()) return added;
  }
  chunk = pending_.substr(0, kArchiveChunkBytes);
  pending_.erase(0, chunk.size());
  return absl::OkStatus();
}

}  // namespace gpupool::client
