// Private to server/api: pages of a list that has rows which the caller may not
// see.
//
// Thread-safety: any thread; no state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {

// Returns the page that `request` asks for, of the rows for which `may_see` is
// true. `list` reads pages of all rows, and `rows` finds the rows of a page.
// The token of the next page names the last row of a page, which is therefore
// always one that the caller sees.
template <typename Response, typename Request, typename Rows, typename MaySee>
absl::StatusOr<Response> VisiblePage(
    Request request,
    const std::function<absl::StatusOr<Response>(const Request&)>& list,
    const Rows& rows, const MaySee& may_see) {
  constexpr int32_t kDefault = 100;
  constexpr int32_t kMost = 1000;
  int32_t wanted = request.page_size() == 0
                       ? kDefault
                       : std::min(request.page_size(), kMost);
  Response visible;
  do {
    request.set_page_size(wanted);
    ASSIGN_OR_RETURN(Response page, list(request));
    for (auto& row : *rows(&page)) {
      if (!may_see(row)) continue;
      *rows(&visible)->Add() = std::move(row);
      --wanted;
    }
    // If the page is full now, all rows of this part are in it.
    visible.set_next_page_token(page.next_page_token());
    request.set_page_token(page.next_page_token());
  } while (wanted > 0 && !request.page_token().empty());
  return visible;
}

}  // namespace gpupool::server
