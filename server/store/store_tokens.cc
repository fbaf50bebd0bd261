// The store's reads of tokens.
#include <utility>

#include "absl/time/time.h"
#include "engine/base/status_macros.h"
#include "google/protobuf/util/time_util.h"
#include "server/store/store.h"
#include "server/store/store_reader.h"

namespace gpupool::server {
namespace {

constexpr char kTokens[] = "SELECT row, checksum FROM tokens ORDER BY id";
constexpr char kTokenUses[] =
    "SELECT id, last_use_ns FROM tokens WHERE last_use_ns > 0";

}  // namespace

// A token that is noted between the two reads lacks its use, which its next one
// makes good.
absl::StatusOr<std::vector<v1::StoredToken>> Store::LoadTokens() const {
  const auto nothing = [](CachedStatement&) {};
  ASSIGN_OR_RETURN(
      auto rows, reader_->Select<v1::StoredToken>("tokens", kTokens, nothing));
  std::map<uint64_t, int64_t> uses;
  RETURN_IF_ERROR(
      reader_->ForEach(kTokenUses, nothing, [&](SQLite::Statement& row) {
        uses[static_cast<uint64_t>(row.getColumn(0).getInt64())] =
            row.getColumn(1).getInt64();
      }));
  for (v1::StoredToken& stored : rows) {
    const auto use = uses.find(stored.token().id());
    if (use == uses.end()) continue;
    *stored.mutable_token()->mutable_last_use_time() =
        google::protobuf::util::TimeUtil::NanosecondsToTimestamp(use->second);
  }
  return rows;
}

}  // namespace gpupool::server
