// Reader of images with their classes, in tar archives.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/image/resize.h"
#include "engine/data/samples/samples.h"
#include "engine/data/table.h"

namespace gpupool::engine {

struct ImageOptions {
  // Both zero: all images must have the size of the first one.
  ImageSize size;
  uint32_t channels = 3;  // 1 or 3
  ImageFit fit = ImageFit::kCrop;
  // The classes in their order. Empty: those that are found.
  std::vector<std::string> classes;
};

// Reads JPEG and PNG files in the order of the archives. Rows are uint8
// [channels, height, width], and labels int64. DatasetFormat.IMAGES says how
// images get their classes. Files of other kinds and hidden ones are left out.
//   INVALID_ARGUMENT    an archive or an image is broken, an image has no class
//                       or another size, or there is one class only; names the
//                       archive and the image
//   RESOURCE_EXHAUSTED  the table would exceed `limits`, or the disk is full
absl::StatusOr<Table> ReadImages(absl::Span<const SampleArchive> archives,
                                 const ImageOptions& options,
                                 const ReadLimits& limits);

}  // namespace gpupool::engine
