#include "engine/import/onnx/file/short_status.h"

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

absl::Status Shortened(const absl::Status& status) {
  constexpr char kMore[] = " ...";
  const absl::string_view text = status.message();
  if (text.size() <= kMaxErrorBytes) return status;
  size_t end = kMaxErrorBytes - (sizeof(kMore) - 1);
  // Bytes 10xxxxxx continue a UTF-8 character, which must stay whole.
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) {
    --end;
  }
  absl::Status cut(status.code(), absl::StrCat(text.substr(0, end), kMore));
  status.ForEachPayload(
      [&cut](absl::string_view type, const absl::Cord& payload) {
        cut.SetPayload(type, payload);
      });
  return cut;
}

}  // namespace gpupool::engine::onnx_import
