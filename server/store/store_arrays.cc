// The store's reads of job arrays.
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/page.h"
#include "server/store/store.h"
#include "server/store/store_reader.h"

namespace gpupool::server {
namespace {

constexpr char kArrayById[] = "SELECT row, checksum FROM arrays WHERE id = ?";
constexpr char kArrayByRequest[] =
    "SELECT row, checksum FROM arrays WHERE tenant = ? AND request_id = ?";
// ?2, ?3 empty: all.
constexpr char kArrayPage[] =
    "SELECT row, checksum FROM arrays WHERE id < ?1"
    " AND (tenant = ?2 OR ?2 = '') AND (name = ?3 OR ?3 = '')"
    " ORDER BY id DESC LIMIT ?4";
constexpr char kTaskCounts[] =
    "SELECT state, COUNT(*) FROM jobs WHERE array_id = ?1 AND array_id > 0"
    " GROUP BY state"
    " UNION ALL SELECT 6, forgotten_succeeded FROM arrays WHERE id = ?1"
    " UNION ALL SELECT 7, forgotten_failed FROM arrays WHERE id = ?1"
    " UNION ALL SELECT 8, forgotten_cancelled FROM arrays WHERE id = ?1";

}  // namespace

// Adds the counts of kept tasks and of forgotten ones.
absl::Status Store::CountTasks(v1::JobArray& array) const {
  std::map<int, uint32_t> counts;
  RETURN_IF_ERROR(reader_->ForEach(
      kTaskCounts,
      [&](CachedStatement& statement) { statement.BindId(1, array.id()); },
      [&](SQLite::Statement& row) {
        counts[row.getColumn(0).getInt()] +=
            static_cast<uint32_t>(row.getColumn(1).getInt64());
      }));
  for (const auto& [state, tasks] : counts) {
    if (tasks == 0) continue;
    v1::JobArray::Count& count = *array.add_counts();
    count.set_state(static_cast<v1::JobState>(state));
    count.set_tasks(tasks);
  }
  return absl::OkStatus();
}

absl::StatusOr<v1::JobArray> Store::GetArray(uint64_t id) const {
  ASSIGN_OR_RETURN(auto arrays,
                   reader_->Select<v1::JobArray>(
                       "arrays", kArrayById, [&](CachedStatement& statement) {
                         statement.BindId(1, id);
                       }));
  if (arrays.empty()) {
    return absl::NotFoundError(absl::StrCat("there is no array ", id));
  }
  RETURN_IF_ERROR(CountTasks(arrays.front()));
  return std::move(arrays.front());
}

absl::StatusOr<std::optional<v1::JobArray>> Store::FindArrayByRequestId(
    absl::string_view tenant, absl::string_view request_id) const {
  ASSIGN_OR_RETURN(auto arrays, reader_->Select<v1::JobArray>(
                                    "arrays", kArrayByRequest,
                                    [&](CachedStatement& statement) {
                                      statement.BindText(1, tenant);
                                      statement.BindText(2, request_id);
                                    }));
  if (arrays.empty()) return std::nullopt;
  RETURN_IF_ERROR(CountTasks(arrays.front()));
  return std::move(arrays.front());
}

absl::StatusOr<v1::ListArraysResponse> Store::ListArrays(
    const v1::ListArraysRequest& request) const {
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const int64_t before,
                   ParseIdToken('a', request.page_token()));
  ASSIGN_OR_RETURN(auto arrays,
                   reader_->Select<v1::JobArray>(
                       "arrays", kArrayPage, [&](CachedStatement& statement) {
                         statement->bind(1, before);
                         statement.BindText(2, request.tenant());
                         statement.BindText(3, request.name());
                         statement->bind(4, size + 1);
                       }));
  v1::ListArraysResponse response;
  if (arrays.size() > static_cast<size_t>(size)) {
    arrays.pop_back();
    response.set_next_page_token(
        MakePageToken('a', absl::StrCat(arrays.back().id())));
  }
  for (v1::JobArray& array : arrays) {
    RETURN_IF_ERROR(CountTasks(array));
    *response.add_arrays() = std::move(array);
  }
  return response;
}

}  // namespace gpupool::server
