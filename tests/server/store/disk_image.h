// Simulates the content of a disk after a power cut. Synced data is there. Of
// data that was written since, any part may be there: a write may be missing,
// be there without an earlier one, or be torn between sectors. A new file may
// have no name yet, and a removed file may be back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace gpupool::server {

class DiskImage {
 public:
  static constexpr size_t kSectorBytes = 512;

  void Create(const std::string& path);
  void Write(const std::string& path, uint64_t at, std::string bytes);
  void Truncate(const std::string& path, uint64_t bytes);
  // Syncs the file. For a new file also syncs its name by syncing the folder,
  // as SQLite does for its journals.
  void Sync(const std::string& path);
  // Removes the file. `durable` says whether the folder was synced, too.
  void Remove(const std::string& path, bool durable);

  // Writes one of the possible outcomes into `folder`.
  void Survive(const std::string& folder, std::mt19937_64& random) const;

 private:
  struct Change {
    uint64_t at = 0;
    std::string bytes;
    bool truncate = false;  // to `at`
  };
  struct File {
    std::optional<std::string> durable;  // under its name; absent: no such name
    std::optional<std::string> current;  // absent: removed
    bool is_new = false;                 // and its name is not durable
    std::vector<Change> pending;         // since `durable`, or since it is new
  };
  void SyncFolder();
  static void Apply(const Change& change, std::string& content);
  static std::optional<std::string> Outcome(const File& file,
                                            std::mt19937_64& random);

  std::map<std::string, File> files_;
};

}  // namespace gpupool::server
