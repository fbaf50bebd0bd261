#include "tests/server/store/disk_image.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace gpupool::server {

void DiskImage::Create(const std::string& path) {
  File& file = files_[path];
  if (file.current.has_value()) return;
  file.current = "";
  file.is_new = true;
  file.pending.clear();
}

void DiskImage::Write(const std::string& path, uint64_t at, std::string bytes) {
  File& file = files_[path];
  file.pending.push_back({at, std::move(bytes)});
  Apply(file.pending.back(), *file.current);
}

void DiskImage::Truncate(const std::string& path, uint64_t bytes) {
  File& file = files_[path];
  file.pending.push_back({bytes, "", /*truncate=*/true});
  Apply(file.pending.back(), *file.current);
}

void DiskImage::Sync(const std::string& path) {
  File& file = files_[path];
  if (file.is_new) SyncFolder();
  file.durable = file.current;
  file.pending.clear();
}

void DiskImage::SyncFolder() {
  for (auto& [path, file] : files_) {
    if (!file.current.has_value()) file.durable.reset();
    if (!file.is_new) continue;
    file.is_new = false;
    file.durable = "";  // the pending changes begin with it
  }
}

void DiskImage::Remove(const std::string& path, bool durable) {
  File& file = files_[path];
  file.current.reset();
  file.is_new = false;
  file.pending.clear();
  if (durable) SyncFolder();
}

void DiskImage::Apply(const Change& change, std::string& content) {
  if (change.truncate) {
    content.resize(change.at);
    return;
  }
  content.resize(
      std::max<size_t>(content.size(), change.at + change.bytes.size()));
  std::copy(change.bytes.begin(), change.bytes.end(),
            content.begin() + static_cast<ptrdiff_t>(change.at));
}

std::optional<std::string> DiskImage::Outcome(const File& file,
                                              std::mt19937_64& random) {
  enum { kNothing, kAll, kSome, kTorn };
  const auto kept = random() % 4;
  if (!file.current.has_value()) {  // removed
    return random() % 2 == 0 ? file.durable : std::nullopt;
  }
  if (file.is_new && random() % 2 == 0) return file.durable;
  std::string content = file.is_new ? "" : file.durable.value_or("");
  for (const Change& change : file.pending) {
    if (kept == kNothing) break;
    if (kept == kAll || (kept == kSome && random() % 2 == 0)) {
      Apply(change, content);
    }
    if (kept != kTorn) continue;
    for (size_t i = 0; i < change.bytes.size(); i += kSectorBytes) {
      if (random() % 2 == 0) continue;
      Apply({change.at + i, change.bytes.substr(i, kSectorBytes)}, content);
    }
  }
  return content;
}

void DiskImage::Survive(const std::string& folder,
                        std::mt19937_64& random) const {
  for (const auto& [path, file] : files_) {
    const auto content = Outcome(file, random);
    if (!content.has_value()) continue;
    const auto name = std::filesystem::path(path).filename();
    std::ofstream(std::filesystem::path(folder) / name, std::ios::binary)
        << *content;
  }
}

}  // namespace gpupool::server
