#include "engine/backends/cuda/kernels/plan_cache.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"

namespace gpupool::engine::cuda {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kMagic = "gpplan01";
constexpr size_t kDigestBytes = 64;
constexpr uint64_t kMaxKeyBytes = uint64_t{1} << 20;

void AppendSized(absl::string_view bytes, std::string& to) {
  uint64_t size = bytes.size();
  for (int i = 0; i < 8; ++i, size >>= 8) {
    to.push_back(static_cast<char>(size & 0xff));
  }
  absl::StrAppend(&to, bytes);
}

// Takes a sized text from the front. Returns false when there is none.
bool TakeSized(absl::string_view& from, absl::string_view& text) {
  if (from.size() < 8) return false;
  uint64_t size = 0;
  for (int i = 7; i >= 0; --i) {
    size = size << 8 | static_cast<unsigned char>(from[static_cast<size_t>(i)]);
  }
  from.remove_prefix(8);
  if (size > from.size()) return false;
  text = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

std::string FileOf(absl::string_view key, absl::string_view plan) {
  std::string file(kMagic);
  AppendSized(key, file);
  AppendSized(plan, file);
  return absl::StrCat(file, Sha256Hex({file.data(), file.size()}));
}

// Returns the plan of a file that FileOf made for the key, else DATA_LOSS.
absl::StatusOr<std::string> PlanOf(absl::string_view file,
                                   absl::string_view key) {
  const absl::Status wrong = absl::DataLossError("not a plan of this key");
  if (file.size() < kMagic.size() + kDigestBytes) return wrong;
  absl::string_view rest = file.substr(0, file.size() - kDigestBytes);
  if (Sha256Hex({rest.data(), rest.size()}) != file.substr(rest.size())) {
    return wrong;
  }
  absl::string_view found_key, plan;
  if (rest.substr(0, kMagic.size()) != kMagic) return wrong;
  rest.remove_prefix(kMagic.size());
  if (!TakeSized(rest, found_key) || !TakeSized(rest, plan) || !rest.empty() ||
      found_key != key) {
    return wrong;
  }
  return std::string(plan);
}

// Returns an empty text when there is no such file or it is larger than `most`.
std::string ReadFile(const std::string& path, uint64_t most) {
  std::error_code error;
  const uint64_t size = fs::file_size(path, error);
  if (error || size > most) return "";
  std::string bytes(size, '\0');
  std::ifstream in(path, std::ios::binary);
  if (!in.read(bytes.data(), static_cast<std::streamsize>(size))) return "";
  return bytes;
}

bool WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  out.close();
  return out.good();
}

}  // namespace

PlanCache::PlanCache(std::string folder, const PlanCacheLimits& limits)
    : folder_(std::move(folder)), limits_(limits) {
  if (folder_.empty()) return;
  std::error_code error;
  fs::create_directories(folder_, error);
  // Without a folder the cache works in memory.
  if (!fs::is_directory(folder_, error)) folder_.clear();
}

std::string PlanCache::PathOf(absl::string_view key) const {
  return absl::StrCat(folder_, "/", Sha256Hex({key.data(), key.size()}));
}

absl::StatusOr<std::string> PlanCache::Find(absl::string_view key) {
  if (const auto found = plans_.find(key); found != plans_.end()) {
    return found->second;
  }
  const absl::Status none = absl::NotFoundError("no plan was kept");
  if (folder_.empty()) return none;
  const std::string path = PathOf(key);
  const std::string file =
      ReadFile(path, limits_.plan_bytes + kMaxKeyBytes + 1024);
  std::error_code error;
  if (file.empty() && !fs::exists(path, error)) return none;
  absl::StatusOr<std::string> plan = PlanOf(file, key);
  if (!plan.ok()) {
    fs::remove(path, error);
    return none;
  }
  if (plans_.size() < limits_.plans) plans_.emplace(key, *plan);
  return plan;
}

void PlanCache::Put(absl::string_view key, absl::string_view plan) {
  if (plan.size() > limits_.plan_bytes || key.size() > kMaxKeyBytes) return;
  if (plans_.size() < limits_.plans || plans_.contains(key)) {
    plans_.insert_or_assign(std::string(key), std::string(plan));
  }
  if (folder_.empty()) return;
  // Another process may write the same plan, so each writes a file of its own.
  // Renaming it when it is complete is atomic.
  const std::string path = PathOf(key);
  const std::string fresh = absl::StrCat(path, ".", ::getpid());
  std::error_code error;
  if (WriteFile(fresh, FileOf(key, plan))) {
    fs::rename(fresh, path, error);
  } else {
    fs::remove(fresh, error);
  }
  DropOldest();
}

void PlanCache::Forget(absl::string_view key) {
  plans_.erase(key);
  if (folder_.empty()) return;
  std::error_code error;
  fs::remove(PathOf(key), error);
}

void PlanCache::DropOldest() {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  // Errors are ignored: another process may remove files at the same time.
  for (fs::directory_iterator at(folder_, error), end; !error && at != end;
       at.increment(error)) {
    std::error_code gone;
    const auto time = at->last_write_time(gone);
    if (!gone) files.emplace_back(time, at->path());
  }
  if (files.size() <= limits_.plans) return;
  std::sort(files.begin(), files.end());
  files.resize(files.size() - limits_.plans);
  for (const auto& [time, path] : files) fs::remove(path, error);
}

}  // namespace gpupool::engine::cuda
