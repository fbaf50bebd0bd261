#include "engine/data/image_reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/column_buffer.h"
#include "engine/data/image/decode.h"

namespace gpupool::engine {
namespace {

SampleKind ImageKind() {
  return {.noun = "image",
          .formats = "JPEG and PNG",
          .listed_endings = ".jpg, .jpeg or .png",
          .example = "NAME.jpg",
          .endings = {".jpg", ".jpeg", ".png"},
          .refused = {".webp", ".gif", ".bmp", ".tif", ".tiff", ".heic",
                      ".avif", ".jp2"}};
}

// Adds the pixels channel by channel.
absl::Status AppendPlanes(const DecodedImage& image, ColumnBuffer& buffer) {
  const size_t pixels = size_t{image.width} * image.height;
  std::vector<char> planes(image.pixels.size());
  for (size_t c = 0; c < image.channels; ++c) {
    for (size_t i = 0; i < pixels; ++i) {
      // Decoders give the channels of a pixel side by side. The engine wants
      // one plane for each channel.
      planes[c * pixels + i] =
          static_cast<char>(image.pixels[i * image.channels + c]);
    }
  }
  return buffer.Append(planes);
}

// Decodes samples to one size.
class ImageRows {
 public:
  ImageRows(const Samples& found, const ImageOptions& options)
      : samples_(found.samples), options_(options), size_(options.size) {}

  // Takes the size from the first image if the options have none.
  absl::Status FindSize() {
    if (size_.width != 0) return absl::OkStatus();
    ASSIGN_OR_RETURN(const DecodedImage first, Decode(samples_[0]));
    size_ = {first.width, first.height};
    return absl::OkStatus();
  }

  ImageSize size() const { return size_; }

  absl::Status DecodeAll(ColumnBuffer& buffer) const {
    for (const Sample& sample : samples_) {
      ASSIGN_OR_RETURN(DecodedImage image, Decode(sample));
      const bool same =
          image.width == size_.width && image.height == size_.height;
      if (!same && options_.size.width == 0) return OtherSize(sample, image);
      if (!same) image = ResizeImage(image, size_, options_.fit);
      RETURN_IF_ERROR(AppendPlanes(image, buffer));
    }
    return absl::OkStatus();
  }

 private:
  absl::StatusOr<DecodedImage> Decode(const Sample& sample) const {
    auto image = DecodeImage(sample.bytes, options_.channels);
    if (!image.ok()) return AtPlace(PlaceOf(sample), image.status());
    return image;
  }

  absl::Status OtherSize(const Sample& sample,
                         const DecodedImage& image) const {
    return absl::InvalidArgumentError(absl::StrCat(
        PlaceOf(sample), " has ", image.width, " x ", image.height,
        " pixels, but the first image, ",
        absl::Utf8SafeCHexEscape(samples_[0].name), ", has ", size_.width,
        " x ", size_.height,
        "; set layout.image_height and image_width, so that images are resized "
        "(gpupool: --image-size ",
        std::min(size_.width, size_.height), ")"));
  }

  const std::vector<Sample>& samples_;
  const ImageOptions& options_;
  ImageSize size_;
};

absl::Status CheckTableSize(uint64_t rows, uint64_t row_bytes,
                            const ReadLimits& limits) {
  if (CheckedTableBytes(rows, row_bytes, limits).ok()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      rows, " images of ", row_bytes, " bytes each exceed the limit of ",
      limits.max_table_bytes,
      " bytes for an unpacked dataset; set a smaller layout.image_height and "
      "image_width (gpupool: --image-size)"));
}

}  // namespace

absl::StatusOr<Table> ReadImages(absl::Span<const SampleArchive> archives,
                                 const ImageOptions& options,
                                 const ReadLimits& limits) {
  ASSIGN_OR_RETURN(Samples found,
                   FindSamples(archives, ImageKind(), options.classes));
  ImageRows rows(found, options);
  RETURN_IF_ERROR(rows.FindSize());
  Table table;
  table.rows = found.samples.size();
  Column pixels = {
      .type = ElementType::kUint8,
      .stored = ElementType::kUint8,
      .shape = {options.channels, rows.size().height, rows.size().width},
      .rows = table.rows,
      .width =
          uint64_t{options.channels} * rows.size().height * rows.size().width};
  const uint64_t row_bytes = pixels.row_bytes() + sizeof(int64_t);
  RETURN_IF_ERROR(CheckTableSize(table.rows, row_bytes, limits));
  // A table that is larger than memory allows is unpacked into a file.
  const bool on_disk = table.rows * row_bytes > limits.memory_bytes &&
                       !limits.unpack_dir.empty();
  ColumnBuffer bytes;
  RETURN_IF_ERROR(on_disk ? bytes.MoveToDisk(limits.unpack_dir)
                          : bytes.Reserve(table.rows * pixels.row_bytes()));
  RETURN_IF_ERROR(rows.DecodeAll(bytes));
  RETURN_IF_ERROR(bytes.MoveTo(pixels));
  ASSIGN_OR_RETURN(Column labels,
                   ColumnOfClasses(found.classes.of_samples,
                                   on_disk ? limits.unpack_dir : ""));
  table.inputs.push_back(std::move(pixels));
  table.targets.push_back(std::move(labels));
  table.class_names = std::move(found.classes.names);
  return table;
}

}  // namespace gpupool::engine
