// Private to server/http: reads the JSON of a request of the REST protocol,
// which comes from anyone. Its memory is bounded by a small multiple of the
// text: the elements of tensors are kept apart (json_elements.h), and the
// number and the depth of all other values have limits.
//
// Pure function.
#pragma once

#include <cstddef>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/http/rest/json_elements.h"

namespace gpupool::server {

// Limits of a body's values, without the elements of tensors.
inline constexpr size_t kMostRestValues = 10'000;
inline constexpr size_t kDeepestRestValue = 16;

struct RestBody {
  // The body. "data" of an input is replaced by its position in `data`.
  nlohmann::json json;
  std::vector<JsonElements> data;
};

// Returns the body. InvalidArgument names the place of the fault:
//   * the text is no JSON, or the body is no object
//   * an object has a key twice
//   * "data" of an input is no list
//   * it has more or deeper values than the limits
absl::StatusOr<RestBody> ReadRestBody(absl::string_view text);

}  // namespace gpupool::server
