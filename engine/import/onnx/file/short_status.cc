#include "engine/import/onnx/file/short_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/utf8.h"

namespace gpupool::engine::onnx_import {

absl::Status Shortened(const absl::Status& status) {
  constexpr char kMore[] = " ...";
  const absl::string_view text = status.message();
  if (text.size() <= kMaxErrorBytes) return status;
  const std::string shown(CutUtf8({text.data(), text.size()},
                                  kMaxErrorBytes - (sizeof(kMore) - 1)));
  absl::Status cut(status.code(), absl::StrCat(shown, kMore));
  status.ForEachPayload(
      [&cut](absl::string_view type, const absl::Cord& payload) {
        cut.SetPayload(type, payload);
      });
  return cut;
}

}  // namespace gpupool::engine::onnx_import
