#include "server/store/lost_database.h"

#include <sys/stat.h>

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "server/store/database.h"
#include "server/store/store_writer.h"

namespace gpupool::server {
namespace {

// Tables whose rows a server cannot do without.
constexpr char kHasRows[] =
    "SELECT EXISTS(SELECT 1 FROM ids) OR EXISTS(SELECT 1 FROM jobs)"
    " OR EXISTS(SELECT 1 FROM datasets) OR EXISTS(SELECT 1 FROM versions)";
constexpr char kHasTables[] =
    "SELECT COUNT(*) FROM sqlite_master"
    " WHERE name IN ('ids', 'jobs', 'datasets', 'versions')";
constexpr char kBegin[] = "SELECT value FROM counters WHERE name = ?";

bool IsThere(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0;
}

bool HasBytes(const std::string& path) {
  struct stat info = {};
  return stat(path.c_str(), &info) == 0 && info.st_size > 0;
}

// Returns when an empty database was begun, InfiniteFuture when that is not
// known; nullopt when the database is not empty.
std::optional<absl::Time> BeginOfEmpty(const std::string& path) {
  if (!HasBytes(path)) return absl::InfiniteFuture();
  // Closes the connection before the store opens its own.
  Connection connection(path, SQLite::OPEN_READONLY);
  SQLite::Database& database = connection.database();
  if (database.execAndGet(kHasTables).getInt() < 4) {
    return absl::InfiniteFuture();
  }
  if (database.execAndGet(kHasRows).getInt() != 0) return std::nullopt;
  CachedStatement statement(connection.Prepare(kBegin));
  statement.BindText(1, kBeginCounter);
  if (!statement->executeStep()) return absl::InfiniteFuture();
  return absl::FromUnixNanos(statement->getColumn(0).getInt64());
}

// Says what the folder has, what it lacks and what to do.
absl::Status Lost(const std::string& state_dir, const std::string& evidence) {
  const std::string path = absl::StrCat(state_dir, "/gpupool.db");
  return absl::FailedPreconditionError(absl::StrCat(
      "the database ", path, IsThere(path) ? " is empty" : " is missing",
      ", but ", evidence,
      ": it had jobs, datasets or models. Put a backup in its place (`gpupoold "
      "--check` looks at it). To give all of that up and begin anew, move ",
      state_dir, "/blobs and ", path, UsedMark(""),
      " away. Nothing was changed"));
}

absl::Status CheckNotLost(const std::string& state_dir) {
  const std::string path = absl::StrCat(state_dir, "/gpupool.db");
  std::optional<absl::Time> begin;
  try {
    begin = BeginOfEmpty(path);
  } catch (const SQLite::Exception&) {
    return absl::OkStatus();  // the store names the damage
  }
  if (!begin) return absl::OkStatus();
  const std::string mark = UsedMark(path);
  if (IsThere(mark)) return Lost(state_dir, absl::StrCat(mark, " exists"));
  const std::string folder = absl::StrCat(state_dir, "/blobs");
  const size_t old = BlobsBefore(folder, *begin).size();
  if (old == 0) return absl::OkStatus();
  return Lost(state_dir,
              absl::StrCat(folder, " has ", old, " files from before"));
}

}  // namespace

std::vector<std::string> BlobsBefore(const std::string& folder,
                                     absl::Time begin) {
  std::vector<std::string> old;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(folder, error), end;
       !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!engine::IsSha256Hex(name)) continue;
    struct stat info = {};
    if (lstat(entry->path().c_str(), &info) != 0 || !S_ISREG(info.st_mode) ||
        absl::TimeFromTimespec(info.st_mtim) >= begin - kClockSlack) {
      continue;
    }
    old.push_back(name);
  }
  return old;
}

absl::StatusOr<std::unique_ptr<Store>> OpenStoreOf(const std::string& state_dir,
                                                   const StoreOptions& options,
                                                   absl::Time now) {
  RETURN_IF_ERROR(CheckNotLost(state_dir));
  const std::string path = absl::StrCat(state_dir, "/gpupool.db");
  ASSIGN_OR_RETURN(std::unique_ptr<Store> store, Store::Open(path, options));
  ASSIGN_OR_RETURN(const uint64_t begin, store->GetCounter(kBeginCounter));
  if (begin > 0) return store;
  try {
    if (!BeginOfEmpty(path)) return store;  // of an earlier version
  } catch (const SQLite::Exception& error) {
    return ToStatus("reading the database", error);
  }
  WriteBatch note;
  note.set_counters[kBeginCounter] =
      static_cast<uint64_t>(absl::ToUnixNanos(now));
  RETURN_IF_ERROR(store->Commit(note));
  return store;
}

}  // namespace gpupool::server
