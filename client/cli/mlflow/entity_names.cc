#include "client/cli/mlflow/entity_names.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace gpupool::client {

std::string EntityName(absl::string_view name) {
  std::string kept(name.substr(0, kLongestEntityName));
  for (char& c : kept) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) &&
        !absl::StrContains("_-. /", absl::string_view(&c, 1))) {
      c = '_';
    }
  }
  // MLflow takes a name for a path, which must be in its normal form.
  std::vector<std::string> parts = absl::StrSplit(kept, '/');
  for (std::string& part : parts) {
    if (part.empty() || part == "." || part == "..") part = "_";
  }
  std::string made = absl::StrJoin(parts, "/");
  if (made.size() > kLongestEntityName) {
    made.resize(kLongestEntityName);
    if (made.back() == '/') made.back() = '_';
  }
  return made;
}

std::string ParamValue(absl::string_view value) {
  if (value.size() <= kLongestParamValue) return std::string(value);
  constexpr absl::string_view kCut = "...";
  size_t size = kLongestParamValue - kCut.size();
  while (size > 0 && (static_cast<unsigned char>(value[size]) & 0xC0) == 0x80) {
    --size;
  }
  return absl::StrCat(value.substr(0, size), kCut);
}

}  // namespace gpupool::client
