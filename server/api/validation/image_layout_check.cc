#include "server/api/validation/image_layout_check.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/image_limits.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"

namespace gpupool::server {
namespace {

bool IsPackedArchive(absl::string_view file_name) {
  const std::string name = absl::AsciiStrToLower(file_name);
  constexpr absl::string_view kEndings[] = {
      ".tgz", ".tar.gz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst"};
  return std::any_of(std::begin(kEndings), std::end(kEndings),
                     [&name](absl::string_view ending) {
                       return absl::EndsWith(name, ending);
                     });
}

absl::Status CheckRowSize(const v1::DatasetLayout& layout) {
  const uint32_t height = layout.image_height(), width = layout.image_width();
  if (height == 0 && width == 0) return absl::OkStatus();
  if (height >= 1 && width >= 1 && height <= engine::kMaxImageRowSide &&
      width <= engine::kMaxImageRowSide) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("layout.image_height and image_width are ", height, " and ",
                   width, "; set both, 1 to ", engine::kMaxImageRowSide,
                   " each, or neither (gpupool: --image-size)"));
}

}  // namespace

absl::Status CheckClassNames(const v1::DatasetLayout& layout) {
  const bool good = layout.categories().empty() ||
                    (layout.categories_size() == 1 &&
                     layout.categories(0).column() == "labels");
  if (!good) {
    return absl::InvalidArgumentError(
        "layout.categories of images and recordings has one entry, the classes "
        "of the column \"labels\"");
  }
  for (const v1::ColumnCategories& column : layout.categories()) {
    for (const std::string& value : column.values()) {
      if (value.empty()) {
        return absl::InvalidArgumentError(
            "layout.categories: a class has an empty name");
      }
    }
  }
  return absl::OkStatus();
}

absl::Status CheckNotPacked(const v1::UploadDatasetRequest::Header& header) {
  for (const v1::DatasetFile& file : header.files()) {
    if (!IsPackedArchive(file.file_name())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "file ", Quoted(file.file_name()),
        " is a compressed archive; images and recordings are sent as they are, "
        "so unpack it "
        "and upload the .tar, or the folder with `gpupool datasets upload`"));
  }
  return absl::OkStatus();
}

absl::Status CheckImageLayout(const v1::DatasetLayout& layout) {
  const bool used =
      layout.image_height() != 0 || layout.image_width() != 0 ||
      layout.image_channels() != 0 ||
      layout.image_fit() != v1::DatasetLayout::IMAGE_FIT_UNSPECIFIED;
  if (layout.format() != v1::IMAGES) {
    if (!used) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "layout.image_height, image_width, image_channels and image_fit are "
        "for IMAGES, the format is ",
        v1::DatasetFormat_Name(layout.format())));
  }
  RETURN_IF_ERROR(CheckRowSize(layout));
  const uint32_t channels = layout.image_channels();
  if (channels != 0 && channels != 1 && channels != 3) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.image_channels is ", channels,
                     "; choose 1 (grey) or 3 (red, green, blue)"));
  }
  if (!v1::DatasetLayout::ImageFit_IsValid(layout.image_fit())) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.image_fit has the unknown value ",
                     static_cast<int>(layout.image_fit())));
  }
  return CheckClassNames(layout);
}

absl::Status FillArchiveRoles(v1::UploadDatasetRequest::Header* header) {
  const bool audio = header->layout().format() == v1::AUDIO;
  const v1::DatasetFile::Role role =
      audio ? v1::DatasetFile::AUDIO : v1::DatasetFile::IMAGES;
  for (v1::DatasetFile& file : *header->mutable_files()) {
    // Clients send a single file as TABLE.
    if (file.role() == v1::DatasetFile::ROLE_UNSPECIFIED ||
        file.role() == v1::DatasetFile::TABLE) {
      file.set_role(role);
    }
    if (file.role() != role) {
      return absl::InvalidArgumentError(
          absl::StrCat("files.role must be ", v1::DatasetFile::Role_Name(role),
                       " for archives of ", audio ? "recordings" : "images"));
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
