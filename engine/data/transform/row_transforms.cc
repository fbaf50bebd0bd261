#include "engine/data/transform/row_transforms.h"

#include <algorithm>
#include <array>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/job_limits.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/transform/image_color.h"
#include "engine/data/transform/random_boxes.h"
#include "engine/data/transform/transform_check.h"

namespace gpupool::engine {
namespace {

// Numbers of an image, before and after each transform.
constexpr int64_t kMaxImageNumbers = int64_t{1} << 26;
// Each row has 2^32 random words, of which each transform has its own.
constexpr int kRowShift = 32;
static_assert(kMaxTransforms * kTransformWords <= uint64_t{1} << kRowShift);

using SideNumbers = google::protobuf::RepeatedField<uint32_t>;

// Returns the height and width that one number, a square, or two stand for.
ImageBox BoxOf(const SideNumbers& size) {
  return {.height = size[0], .width = size[size.size() - 1]};
}

// Returns the size that Resize gives. One number is that of the shorter side.
ImageBox ResizedOf(const SideNumbers& size, const ImageShape& from) {
  if (size.size() == 2) return BoxOf(size);
  // The longer side keeps the ratio, rounded down as torchvision does.
  const int64_t side = size[0];
  if (from.height <= from.width) {
    return {.height = side,
            .width = std::max<int64_t>(side * from.width / from.height, 1)};
  }
  return {.height = std::max<int64_t>(side * from.height / from.width, 1),
          .width = side};
}

NumberRange RangeOr(const google::protobuf::RepeatedField<double>& range,
                    const NumberRange& otherwise) {
  return range.empty() ? otherwise : NumberRange{range[0], range[1]};
}

bool Happens(const auto& random_kind, Philox& random) {
  return random.NextDouble() < (random_kind.has_p() ? random_kind.p() : 0.5);
}

std::vector<float> FloatsOf(
    const google::protobuf::RepeatedField<double>& numbers) {
  std::vector<float> floats;
  for (const double x : numbers) floats.push_back(static_cast<float>(x));
  return floats;
}

float FactorOf(const v1::Transform::ToFloat& to_float) {
  return to_float.has_factor() ? static_cast<float>(to_float.factor())
                               : 1.0f / 255;
}

void Jitter(const v1::Transform::ColorJitter& jitter, float maximum,
            Philox& random, Image& image) {
  const auto factor = [&random](double strength) {
    return static_cast<float>(
        DrawFrom({std::max(0.0, 1 - strength), 1 + strength}, random));
  };
  const float brightness = factor(jitter.brightness());
  const float contrast = factor(jitter.contrast());
  const float saturation = factor(jitter.saturation());
  std::array<int, 3> order = {0, 1, 2};
  // This is the shuffle of Fisher and Yates. The order of the three changes
  // matters, as in torchvision.
  for (uint64_t i = 3; i > 1; --i) {
    std::swap(order[i - 1], order[random.NextBelow(i)]);
  }
  for (const int what : order) {
    if (what == 0 && jitter.brightness() > 0) {
      AdjustBrightness(brightness, maximum, image);
    } else if (what == 1 && jitter.contrast() > 0) {
      AdjustContrast(contrast, maximum, image);
    } else if (what == 2 && jitter.saturation() > 0) {
      AdjustSaturation(saturation, maximum, image);
    }
  }
}

void EraseSome(const v1::Transform::RandomErasing& erasing, Philox& random,
               Image& image) {
  if (!Happens(erasing, random)) return;
  // The defaults are those of torchvision.
  const BoxRanges ranges = {RangeOr(erasing.scale(), {0.02, 0.33}),
                            RangeOr(erasing.ratio(), {0.3, 3.3})};
  const auto box = DrawErasedBox(image.shape, ranges, random);
  if (!box.has_value()) return;
  Erase(*box, static_cast<float>(erasing.value()), image);
}

void CropAndResize(const v1::Transform::RandomResizedCrop& crop, Philox& random,
                   Image& image) {
  const BoxRanges ranges = {RangeOr(crop.scale(), {0.08, 1}),
                            RangeOr(crop.ratio(), {3.0 / 4, 4.0 / 3})};
  Crop(DrawResizedCrop(image.shape, ranges, random), image);
  const ImageBox size = BoxOf(crop.size());
  Resize(size.height, size.width, image);
}

absl::Status CheckChannels(const v1::Transform& transform,
                           const ImageShape& shape) {
  const v1::Transform::Normalize& normalize = transform.normalize();
  for (const auto& [name, count] : {std::pair("mean", normalize.mean_size()),
                                    std::pair("std", normalize.std_size())}) {
    if (count <= 1 || count == shape.channels) continue;
    return Refuse(name, " has ", count, " numbers, but the image has ",
                  shape.channels,
                  " channels; give one for each, or one for all");
  }
  return absl::OkStatus();
}

// Checks that a part of this size is inside the padded image.
absl::Status CheckCropFits(const v1::Transform::RandomCrop& crop,
                           const ImageShape& shape) {
  const ImageBox size = BoxOf(crop.size());
  const int64_t more = 2 * int64_t{crop.padding()};
  if (size.height <= shape.height + more && size.width <= shape.width + more) {
    return absl::OkStatus();
  }
  return Refuse("size [", size.height, ",", size.width,
                "] is larger than the image of ", shape.height, " x ",
                shape.width, " with padding ", crop.padding(),
                "; lower it, or put resize before it");
}

ImageShape ShapeAfter(const v1::Transform& transform, const ImageShape& from) {
  ImageBox size = {.height = from.height, .width = from.width};
  if (transform.has_random_crop()) size = BoxOf(transform.random_crop().size());
  if (transform.has_center_crop()) size = BoxOf(transform.center_crop().size());
  if (transform.has_random_resized_crop()) {
    size = BoxOf(transform.random_resized_crop().size());
  }
  if (transform.has_resize()) {
    size = ResizedOf(transform.resize().size(), from);
  }
  return {from.channels, size.height, size.width};
}

}  // namespace

Philox RandomOf(const RowKey& key, uint64_t transform) {
  Philox random(key.seed, PhiloxStreamId(PhiloxStream::kTransforms, key.epoch));
  // Each transform of a row begins at its own word, so that a change of one
  // leaves the numbers of the others as they were.
  random.Seek((uint64_t{key.row} << kRowShift) + transform * kTransformWords);
  return random;
}

absl::StatusOr<RowTransforms> RowTransforms::Create(const v1::DataSpec& data,
                                                    absl::string_view input,
                                                    const ImageShape& shape,
                                                    bool integers) {
  RowTransforms all;
  all.before_ = all.after_ = shape;
  // This is the largest value of a pixel. 0 stands for an unknown one.
  float pixels_end = integers ? 255 : 1;
  for (int i = 0; i < data.transforms_size(); ++i) {
    const v1::Transform& transform = data.transforms(i);
    if (!IsForInput(transform, input) || transform.has_random_mask()) continue;
    RETURN_IF_ERROR(AtPlace(
        TransformPlace(i, transform),
        all.Add({.index = static_cast<uint64_t>(i), .transform = transform},
                pixels_end)));
  }
  return all;
}

absl::Status RowTransforms::Add(Step step, float& pixels_end) {
  const v1::Transform& transform = step.transform;
  if (transform.has_random_crop()) {
    RETURN_IF_ERROR(CheckCropFits(transform.random_crop(), after_));
  }
  if (transform.has_normalize()) {
    RETURN_IF_ERROR(CheckChannels(transform, after_));
    pixels_end = 0;
  }
  if (transform.has_to_float()) {
    pixels_end = std::max(pixels_end * FactorOf(transform.to_float()), 0.0f);
  }
  if (transform.has_color_jitter()) {
    if (pixels_end == 0) {
      return Refuse(
          "its pixels must be from 0 to a maximum, but they are "
          "normalized; put it before normalize");
    }
    const v1::Transform::ColorJitter& jitter = transform.color_jitter();
    step.maximum = jitter.has_maximum() ? static_cast<float>(jitter.maximum())
                                        : pixels_end;
  }
  step.after = ShapeAfter(transform, after_);
  // The division cannot overflow.
  if (step.after.plane() > kMaxImageNumbers / step.after.channels) {
    return Refuse("makes images of ", step.after.channels, " x ",
                  step.after.height, " x ", step.after.width,
                  " numbers; at most ", kMaxImageNumbers, " are allowed");
  }
  after_ = step.after;
  steps_.push_back(std::move(step));
  return absl::OkStatus();
}

void RowTransforms::Train(const RowKey& key, Image& image) const {
  GPUPOOL_CHECK(image.shape == before_);
  for (const Step& step : steps_) {
    Philox random = RandomOf(key, step.index);
    TrainStep(step, random, image);
  }
}

void RowTransforms::Evaluate(Image& image) const {
  GPUPOOL_CHECK(image.shape == before_);
  for (const Step& step : steps_) PlainStep(step, image);
}

void RowTransforms::TrainStep(const Step& step, Philox& random,
                              Image& image) const {
  const v1::Transform& transform = step.transform;
  switch (transform.kind_case()) {
    case v1::Transform::kRandomHorizontalFlip:
      if (Happens(transform.random_horizontal_flip(), random)) {
        FlipHorizontally(image);
      }
      return;
    case v1::Transform::kRandomVerticalFlip:
      if (Happens(transform.random_vertical_flip(), random)) {
        FlipVertically(image);
      }
      return;
    case v1::Transform::kRandomCrop:
      return Crop(DrawCrop(image.shape, BoxOf(transform.random_crop().size()),
                           transform.random_crop().padding(), random),
                  image);
    case v1::Transform::kRandomResizedCrop:
      return CropAndResize(transform.random_resized_crop(), random, image);
    case v1::Transform::kRandomRotation: {
      const double most = transform.random_rotation().degrees();
      return Rotate(DrawFrom({-most, most}, random), image);
    }
    case v1::Transform::kColorJitter:
      return Jitter(transform.color_jitter(), step.maximum, random, image);
    case v1::Transform::kRandomErasing:
      return EraseSome(transform.random_erasing(), random, image);
    default:
      return PlainStep(step, image);
  }
}

void RowTransforms::PlainStep(const Step& step, Image& image) const {
  const v1::Transform& transform = step.transform;
  const int64_t height = step.after.height, width = step.after.width;
  switch (transform.kind_case()) {
    case v1::Transform::kToFloat:
      return Multiply(FactorOf(transform.to_float()), image);
    case v1::Transform::kNormalize:
      return NormalizeChannels(FloatsOf(transform.normalize().mean()),
                               FloatsOf(transform.normalize().std()), image);
    case v1::Transform::kRandomCrop:
    case v1::Transform::kCenterCrop:
      return Crop(CentreBox(image.shape, height, width), image);
    case v1::Transform::kRandomResizedCrop:
      Crop(LargestBox(image.shape, height, width), image);
      return Resize(height, width, image);
    case v1::Transform::kResize:
      return Resize(height, width, image);
    default:
      return;  // random
  }
}

}  // namespace gpupool::engine
