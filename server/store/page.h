// Private to server/store: page sizes and page tokens of list requests.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// Returns the rows of a page: 100 for 0, 1000 for more than 1000.
// InvalidArgument when negative.
absl::StatusOr<int> PageSize(int32_t requested);

// Returns a token: the kind's letter and the key of the page's last row.
std::string MakePageToken(char kind, absl::string_view key);
// Returns the key; "" for the first page. InvalidArgument for a foreign token.
absl::StatusOr<std::string> ParsePageToken(char kind, absl::string_view token);
// Returns the key as an id; the largest id for the first page.
absl::StatusOr<int64_t> ParseIdToken(char kind, absl::string_view token);

}  // namespace gpupool::server
