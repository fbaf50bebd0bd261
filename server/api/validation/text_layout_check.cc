#include "server/api/validation/text_layout_check.h"

#include "absl/strings/str_cat.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/text_limits.h"

namespace gpupool::server {
namespace {

using engine::Refuse;

// Checks the length of the rows that texts of CSV files become.
absl::Status CheckTextLength(const v1::DatasetLayout& layout) {
  const bool bytes = layout.text() == v1::DatasetLayout::BYTES;
  const uint32_t length = layout.text_length();
  if (!bytes && length == 0) return absl::OkStatus();
  if (!bytes) {
    return Refuse("layout.text_length is ", length,
                  ", but it is for text: BYTES only (gpupool: --text bytes)");
  }
  if (length >= 1 && length <= engine::kMaxTextLength) return absl::OkStatus();
  return Refuse("layout.text_length is ", length, "; text: BYTES needs 1 to ",
                engine::kMaxTextLength,
                " numbers for each text (gpupool: --text-length)");
}

}  // namespace

absl::Status CheckTextLayout(const v1::DatasetLayout& layout) {
  RETURN_IF_ERROR(CheckTextLength(layout));
  if (layout.format() != v1::TEXT || layout.categories().empty()) {
    return absl::OkStatus();
  }
  if (layout.categories_size() > 1 ||
      layout.categories(0).column() != "labels") {
    return Refuse(
        "layout.categories of text has one entry, the tokens of the column "
        "\"labels\"");
  }
  return absl::OkStatus();
}

void FillTextRoles(v1::UploadDatasetRequest::Header* header) {
  for (v1::DatasetFile& file : *header->mutable_files()) {
    file.set_role(v1::DatasetFile::TABLE);
  }
}

}  // namespace gpupool::server
