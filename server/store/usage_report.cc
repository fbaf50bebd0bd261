#include "server/store/usage_report.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/store/page.h"

namespace gpupool::server {
namespace {

constexpr int64_t kHour = 3600;

// ?1, ?2: first hour and hour after the last. ?3: tenant; empty: all. ?4, ?5:
// rows of the page and rows before it.
#define GPUPOOL_USAGE_QUERY(value, tenant, model, job)                        \
  "SELECT " tenant ", " model ", " job                                        \
  ", device_kind, activity, SUM(device_seconds), SUM(byte_seconds),"          \
  " SUM(joules), SUM(metered_seconds) FROM usage WHERE hour >= ?1 AND hour <" \
  " ?2 AND (?3 = '' OR tenant = ?3) GROUP BY " value                          \
  ", device_kind, activity ORDER BY " value                                   \
  ", device_kind, activity LIMIT ?4 OFFSET ?5"

constexpr char kByTenant[] = GPUPOOL_USAGE_QUERY("tenant", "tenant", "''", "0");
constexpr char kByJob[] =
    GPUPOOL_USAGE_QUERY("job_id, tenant, model", "tenant", "model", "job_id");
constexpr char kByModel[] = GPUPOOL_USAGE_QUERY("model", "''", "model", "0");
#undef GPUPOOL_USAGE_QUERY

const char* QueryOf(v1::UsageGrouping grouping) {
  switch (grouping) {
    case v1::BY_JOB:
      return kByJob;
    case v1::BY_MODEL:
      return kByModel;
    default:
      return kByTenant;
  }
}

// Rounds down, also before 1970.
int64_t HourOf(int64_t seconds) {
  return seconds / kHour - (seconds % kHour < 0 ? 1 : 0);
}

v1::UsageRow RowOf(SQLite::Statement& found) {
  v1::UsageRow row;
  row.set_tenant(found.getColumn(0).getString());
  row.set_model(found.getColumn(1).getString());
  row.set_job_id(static_cast<uint64_t>(found.getColumn(2).getInt64()));
  row.set_device_kind(found.getColumn(3).getString());
  row.set_activity(static_cast<v1::UsageActivity>(found.getColumn(4).getInt()));
  row.set_device_seconds(found.getColumn(5).getDouble());
  row.set_byte_seconds(found.getColumn(6).getDouble());
  row.set_metered_device_seconds(found.getColumn(8).getDouble());
  if (row.metered_device_seconds() > 0) {
    row.set_energy_joules(found.getColumn(7).getDouble());
  }
  return row;
}

std::string TimeText(int64_t unix_seconds) {
  return absl::FormatTime(absl::RFC3339_sec,
                          absl::FromUnixSeconds(unix_seconds),
                          absl::UTCTimeZone());
}

}  // namespace

absl::StatusOr<v1::GetUsageResponse> ReportUsage(
    const StoreReader& reader, const v1::GetUsageRequest& request,
    absl::Time now) {
  const int64_t until = request.has_until() ? request.until().seconds()
                                            : absl::ToUnixSeconds(now);
  const int64_t first =
      request.has_since() ? HourOf(request.since().seconds()) : 0;
  const int64_t end = HourOf(until) + 1;
  if (first >= end) {
    return absl::InvalidArgumentError(absl::StrCat(
        "usage is asked for since ", TimeText(request.since().seconds()),
        ", which is after its end, ", TimeText(until),
        "; give an earlier `since` or a later `until`"));
  }
  ASSIGN_OR_RETURN(const int size, PageSize(request.page_size()));
  ASSIGN_OR_RETURN(const std::string key,
                   ParsePageToken('u', request.page_token()));
  int64_t before = 0;
  if (!key.empty() && (!absl::SimpleAtoi(key, &before) || before < 0)) {
    return absl::InvalidArgumentError(
        "page_token is none of GetUsage; leave it out for the first page");
  }
  v1::GetUsageResponse response;
  response.mutable_from()->set_seconds(first * kHour);
  response.mutable_to()->set_seconds(end * kHour);
  RETURN_IF_ERROR(reader.ForEach(
      QueryOf(request.grouping()),
      [&](CachedStatement& statement) {
        statement->bind(1, first);
        statement->bind(2, end);
        statement.BindText(3, request.tenant());
        // One row more than the page tells whether another page follows.
        statement->bind(4, size + 1);
        statement->bind(5, before);
      },
      [&](SQLite::Statement& found) { *response.add_rows() = RowOf(found); }));
  if (response.rows_size() > size) {
    response.mutable_rows()->RemoveLast();
    response.set_next_page_token(
        MakePageToken('u', absl::StrCat(before + size)));
  }
  return response;
}

}  // namespace gpupool::server
