#include "engine/data/transform/transform_check.h"

#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/job_limits.h"
#include "engine/base/refuse.h"
#include "engine/base/row_windows.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/transform/token_mask.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::engine {
namespace {

constexpr uint32_t kMaxSide = 16384;
constexpr uint32_t kMaxPadding = 4096;
constexpr double kMaxRatio = 1000;
constexpr uint64_t kMaxVocabulary = 2'147'483'647;
constexpr int kMaxKeptTokens = 64;

using Numbers = google::protobuf::RepeatedField<double>;
using Sizes = google::protobuf::RepeatedField<uint32_t>;

absl::Status CheckProbability(const auto& random) {
  if (!random.has_p() || (random.p() >= 0 && random.p() <= 1)) {
    return absl::OkStatus();
  }
  return Refuse("p is ", random.p(), "; it must be from 0 to 1");
}

absl::Status CheckSize(const Sizes& size) {
  // One number means both sides. Of `resize` it is the shorter side.
  if (size.empty() || size.size() > 2) {
    return Refuse("size has ", size.size(),
                  " numbers; write size: [HEIGHT, WIDTH]");
  }
  for (const uint32_t side : size) {
    if (side >= 1 && side <= kMaxSide) continue;
    return Refuse("size has ", side, "; each side must be 1 .. ", kMaxSide);
  }
  return absl::OkStatus();
}

// Checks two numbers of (0, most] in their order; nothing means the default.
absl::Status CheckRange(absl::string_view field, const Numbers& range,
                        double most) {
  if (range.empty()) return absl::OkStatus();
  if (range.size() == 2 && range[0] > 0 && range[0] <= range[1] &&
      range[1] <= most) {
    return absl::OkStatus();
  }
  return Refuse(field, " must be two numbers above 0 and at most ", most,
                ", the smaller one first");
}

absl::Status CheckNormalize(const v1::Transform::Normalize& normalize) {
  if (normalize.mean().empty() || normalize.std().empty()) {
    return Refuse(
        "mean and std must both be set, with a number for each "
        "channel, or one for all");
  }
  for (const double mean : normalize.mean()) {
    // A double may be finite and still overflow the float that is computed
    // with.
    if (std::isfinite(static_cast<float>(mean))) continue;
    return Refuse("mean has ", mean, "; it must be a finite number");
  }
  // Normalize divides by these numbers.
  for (const double deviation : normalize.std()) {
    const auto number = static_cast<float>(deviation);
    if (number > 0 && std::isfinite(number)) continue;
    return Refuse("std has ", deviation, "; it must be above 0");
  }
  return absl::OkStatus();
}

absl::Status CheckJitter(const v1::Transform::ColorJitter& jitter) {
  const auto check = [](absl::string_view field, double number) {
    return number >= 0 && number <= kMaxRatio
               ? absl::OkStatus()
               : Refuse(field, " is ", number, "; it must be from 0 to ",
                        kMaxRatio);
  };
  RETURN_IF_ERROR(check("brightness", jitter.brightness()));
  RETURN_IF_ERROR(check("contrast", jitter.contrast()));
  RETURN_IF_ERROR(check("saturation", jitter.saturation()));
  if (!jitter.has_maximum()) return absl::OkStatus();
  const auto maximum = static_cast<float>(jitter.maximum());
  if (maximum > 0 && std::isfinite(maximum)) return absl::OkStatus();
  return Refuse("maximum is ", jitter.maximum(), "; it must be above 0");
}

absl::Status CheckErasing(const v1::Transform::RandomErasing& erasing) {
  RETURN_IF_ERROR(CheckProbability(erasing));
  RETURN_IF_ERROR(CheckRange("scale", erasing.scale(), 1));
  RETURN_IF_ERROR(CheckRange("ratio", erasing.ratio(), kMaxRatio));
  if (std::isfinite(static_cast<float>(erasing.value()))) {
    return absl::OkStatus();
  }
  return Refuse("value is ", erasing.value(), "; it must be a finite number");
}

absl::Status CheckResizedCrop(const v1::Transform::RandomResizedCrop& crop) {
  RETURN_IF_ERROR(CheckSize(crop.size()));
  RETURN_IF_ERROR(CheckRange("scale", crop.scale(), 1));
  return CheckRange("ratio", crop.ratio(), kMaxRatio);
}

absl::Status CheckCrop(const v1::Transform::RandomCrop& crop) {
  RETURN_IF_ERROR(CheckSize(crop.size()));
  if (crop.padding() <= kMaxPadding) return absl::OkStatus();
  return Refuse("padding is ", crop.padding(), "; at most ", kMaxPadding,
                " pixels are allowed");
}

absl::Status CheckFactor(const v1::Transform::ToFloat& to_float) {
  const auto factor = static_cast<float>(to_float.factor());
  if (!to_float.has_factor() || (std::isfinite(factor) && factor != 0)) {
    return absl::OkStatus();
  }
  return Refuse("factor is ", to_float.factor(),
                "; it must be a finite number other than 0");
}

absl::Status CheckDegrees(const v1::Transform::RandomRotation& rotation) {
  if (rotation.degrees() >= 0 && rotation.degrees() <= 180) {
    return absl::OkStatus();
  }
  return Refuse("degrees is ", rotation.degrees(),
                "; it must be from 0 to 180");
}

absl::Status CheckMaskShares(const v1::Transform::RandomMask& mask) {
  const MaskShares shares(mask);
  for (const auto& [field, share] : {std::pair("mask_share", shares.masked),
                                     std::pair("random_share", shares.drawn)}) {
    if (share >= 0 && share <= 1) continue;
    return Refuse(field, " is ", share, "; it must be from 0 to 1");
  }
  if (shares.masked + shares.drawn > 1) {
    return Refuse("mask_share ", shares.masked, " and random_share ",
                  shares.drawn, " are more than 1 together; lower one of them");
  }
  if (shares.drawn == 0 || mask.vocabulary() > 0) return absl::OkStatus();
  return Refuse(
      "vocabulary is missing; set it to the number of tokens, from which "
      "random ones are drawn, or random_share to 0");
}

absl::Status CheckMask(const v1::Transform::RandomMask& mask) {
  if (mask.has_p() && !(mask.p() > 0 && mask.p() <= 1)) {
    return Refuse("p is ", mask.p(), "; it must be above 0 and at most 1");
  }
  if (!mask.has_mask_token()) {
    return Refuse(
        "mask_token is missing; set it to the token that stands for hidden "
        "ones");
  }
  if (mask.mask_token() < 0) {
    return Refuse("mask_token is ", mask.mask_token(),
                  "; it must be at least 0");
  }
  if (mask.vocabulary() > kMaxVocabulary) {
    return Refuse("vocabulary is ", mask.vocabulary(), "; at most ",
                  kMaxVocabulary, " tokens are allowed");
  }
  if (mask.kept_tokens_size() > kMaxKeptTokens) {
    return Refuse("kept_tokens has ", mask.kept_tokens_size(),
                  " tokens; at most ", kMaxKeptTokens, " are allowed");
  }
  return CheckMaskShares(mask);
}

absl::Status CheckNumbersOf(const v1::Transform& transform) {
  switch (transform.kind_case()) {
    case v1::Transform::kToFloat:
      return CheckFactor(transform.to_float());
    case v1::Transform::kNormalize:
      return CheckNormalize(transform.normalize());
    case v1::Transform::kRandomHorizontalFlip:
      return CheckProbability(transform.random_horizontal_flip());
    case v1::Transform::kRandomVerticalFlip:
      return CheckProbability(transform.random_vertical_flip());
    case v1::Transform::kRandomCrop:
      return CheckCrop(transform.random_crop());
    case v1::Transform::kCenterCrop:
      return CheckSize(transform.center_crop().size());
    case v1::Transform::kResize:
      return CheckSize(transform.resize().size());
    case v1::Transform::kRandomResizedCrop:
      return CheckResizedCrop(transform.random_resized_crop());
    case v1::Transform::kRandomRotation:
      return CheckDegrees(transform.random_rotation());
    case v1::Transform::kColorJitter:
      return CheckJitter(transform.color_jitter());
    case v1::Transform::kRandomErasing:
      return CheckErasing(transform.random_erasing());
    case v1::Transform::kRandomMask:
      return CheckMask(transform.random_mask());
    case v1::Transform::KIND_NOT_SET:
      break;
  }
  return Refuse(
      "has no kind that this server knows; see message Transform in "
      "job.proto");
}

// Checks that the labels of a row's tokens are not those of later tokens.
absl::Status CheckMaskedWindow(const v1::DataSpec& data) {
  const v1::Window& window = data.window();
  const bool several = window.target_rows() > 0 || window.predict_input() ||
                       HasTargetOfEachRow(window);
  const RowWindows windows = RowWindowsOf(window);
  if (!several || windows.target_begin() == 0) return absl::OkStatus();
  return Refuse(
      "data.window gives tokens the labels of later ones, but those of "
      "the hidden tokens themselves must be learned; set data.window.targets "
      "to same");
}

}  // namespace

absl::string_view TransformName(const v1::Transform& transform) {
  const auto* field =
      v1::Transform::descriptor()->FindFieldByNumber(transform.kind_case());
  return field == nullptr ? absl::string_view() : field->name();
}

std::string TransformPlace(int index, const v1::Transform& transform) {
  const absl::string_view name = TransformName(transform);
  return absl::StrCat("data.transforms[", index, "]", name.empty() ? "" : ".",
                      name);
}

bool IsForInput(const v1::Transform& transform, absl::string_view input) {
  return transform.input().empty() || transform.input() == input;
}

bool MovesPixels(const v1::Transform& transform) {
  switch (transform.kind_case()) {
    case v1::Transform::kToFloat:
    case v1::Transform::kNormalize:
    case v1::Transform::kColorJitter:
    case v1::Transform::kRandomErasing:
    case v1::Transform::kRandomMask:
      return false;
    default:
      return true;
  }
}

absl::Status CheckTransforms(const v1::DataSpec& data) {
  if (data.transforms_size() > kMaxTransforms) {
    return Refuse("data.transforms has ", data.transforms_size(),
                  " transforms; at most ", kMaxTransforms, " are allowed");
  }
  for (int i = 0; i < data.transforms_size(); ++i) {
    const v1::Transform& transform = data.transforms(i);
    const std::string place = TransformPlace(i, transform);
    RETURN_IF_ERROR(AtPlace(place, CheckNumbersOf(transform)));
    if (!data.has_window() || !transform.has_random_mask()) continue;
    RETURN_IF_ERROR(AtPlace(place, CheckMaskedWindow(data)));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
