#include "server/serving/tensor/bytes_elements.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/counted.h"

namespace gpupool::server {

static_assert(std::endian::native == std::endian::little,
              "lengths are little-endian");

void AppendBytesElement(absl::string_view element, std::string* raw) {
  const auto length = static_cast<uint32_t>(element.size());
  raw->append(reinterpret_cast<const char*>(&length), kBytesElementHead);
  raw->append(element.data(), element.size());
}

absl::StatusOr<std::vector<absl::string_view>> ReadBytesElements(
    absl::string_view raw, uint64_t count) {
  std::vector<absl::string_view> elements;
  // Each element takes its head at least, so a large count is refused before
  // memory is reserved for it.
  if (count > raw.size() / kBytesElementHead) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", raw.size(), " bytes, too few for ",
        engine::Counted(count, "element"), " with 4 bytes of length each"));
  }
  elements.reserve(count);
  for (uint64_t i = 0; i < count; ++i) {
    uint32_t length = 0;
    if (raw.size() < kBytesElementHead) {
      return absl::InvalidArgumentError(
          absl::StrCat("has no length for element ", i, " of ", count));
    }
    std::memcpy(&length, raw.data(), kBytesElementHead);
    raw.remove_prefix(kBytesElementHead);
    if (length > raw.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a length of ", length, " for element ", i,
                       ", but only ", raw.size(), " bytes are left"));
    }
    elements.push_back(raw.substr(0, length));
    raw.remove_prefix(length);
  }
  if (raw.empty()) return elements;
  return absl::InvalidArgumentError(
      absl::StrCat("has ", raw.size(), " bytes more than its ",
                   engine::Counted(count, "element")));
}

}  // namespace gpupool::server
