// Private to server/store: the writing connection. Used by one thread.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/store/database.h"
#include "server/store/disk_reserve.h"
#include "server/store/store.h"

namespace gpupool::server {

// Returns the job's value in the unique column of request ids: for a task of an
// array a text that no client can send.
std::string RequestColumn(const v1::Job& job);

// Returns the path of the empty file that tells that the database at `path` has
// given an id (lost_database.h).
std::string UsedMark(const std::string& path);

class StoreWriter {
 public:
  // Opens, migrates and reads the id counters. `reserve` must outlive the
  // writer.
  static absl::StatusOr<std::unique_ptr<StoreWriter>> Open(
      const std::string& path, DiskReserve* reserve);

  uint64_t Allocate(const std::string& name);
  // Makes later ids of this name larger than `id`.
  void Raise(const std::string& name, uint64_t id);
  absl::Status Commit(const WriteBatch& batch);

 private:
  StoreWriter(const std::string& path, DiskReserve* reserve);
  // Makes the mark, once. After a failure the next call tries again.
  void MarkUsed();
  absl::Status WriteOrGiveRoom(const WriteBatch& batch);
  // Moves the write-ahead log into the database when it has grown long.
  absl::Status Checkpoint();
  void Write(const WriteBatch& batch);
  void WriteJob(const v1::Job& job);
  void WriteArray(const v1::JobArray& array);
  void WriteEvent(const v1::JobEvent& event);
  void WriteDataset(const v1::Dataset& dataset);
  void WriteVersion(const v1::ModelVersion& version);
  void WriteCheckpoint(const v1::Checkpoint& checkpoint);
  void WriteReservation(const v1::Reservation& reservation);
  void WriteTokens(const WriteBatch& batch);
  void AddUsage(const UsageKey& key, const UsageSums& sums);
  void WriteNumber(const char* sql, const std::string& name, uint64_t value);
  void DeleteById(const char* sql, uint64_t id);
  void DeletePairs(const char* sql,
                   const std::vector<std::pair<uint64_t, uint64_t>>& pairs);

  Connection connection_;
  DiskReserve* const reserve_;
  const std::string path_;
  bool marked_ = false;  // the mark is on disk
  int log_pages_ = 0;    // length of the write-ahead log at the last commit
  std::map<std::string, uint64_t> last_ids_;   // given out
  std::map<std::string, uint64_t> dirty_ids_;  // given out, not committed
  absl::Status failure_;                       // error of an earlier Commit
};

}  // namespace gpupool::server
