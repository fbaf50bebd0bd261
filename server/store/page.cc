#include "server/store/page.h"

#include <algorithm>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

constexpr int kDefaultPageSize = 100;
constexpr int kMaxPageSize = 1000;

absl::Status BadToken() {
  return absl::InvalidArgumentError(
      "page_token was not made by this list; pass next_page_token of the "
      "answer before, or nothing for the first page");
}

}  // namespace

absl::StatusOr<int> PageSize(int32_t requested) {
  if (requested < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("page_size is ", requested, "; it must be 0 .. ",
                     kMaxPageSize, " (0 means ", kDefaultPageSize, ")"));
  }
  if (requested == 0) return kDefaultPageSize;
  return std::min<int>(requested, kMaxPageSize);
}

std::string MakePageToken(char kind, absl::string_view key) {
  return absl::StrCat(absl::string_view(&kind, 1), key);
}

absl::StatusOr<std::string> ParsePageToken(char kind, absl::string_view token) {
  if (token.empty()) return std::string();
  if (token.size() < 2 || token.front() != kind) return BadToken();
  return std::string(token.substr(1));
}

absl::StatusOr<int64_t> ParseIdToken(char kind, absl::string_view token) {
  ASSIGN_OR_RETURN(const std::string key, ParsePageToken(kind, token));
  if (key.empty()) return std::numeric_limits<int64_t>::max();
  int64_t id = 0;
  if (!absl::SimpleAtoi(key, &id) || id <= 0) return BadToken();
  return id;
}

}  // namespace gpupool::server
