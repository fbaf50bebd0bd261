// Lists names in messages. Pure.
#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::engine {

// Returns "'ids', 'mask'" for items with a member `name`, and an empty text for
// none.
template <typename Items>
std::string QuotedNames(const Items& items) {
  return absl::StrJoin(items, ", ", [](std::string* out, const auto& item) {
    absl::StrAppend(out, "'", item.name, "'");
  });
}

}  // namespace gpupool::engine
