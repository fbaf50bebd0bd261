#include "server/api/validation/audio_layout_check.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/base/audio_limits.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/image_layout_check.h"

namespace gpupool::server {
namespace {

absl::Status CheckAudioLength(const v1::AudioLayout& audio) {
  if (audio.samples() > engine::kMaxAudioRowNumbers) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.audio.samples is ", audio.samples(),
                     ", the limit is ", engine::kMaxAudioRowNumbers,
                     " numbers of a row; choose a shorter length"));
  }
  // A row has at least one sample a second, so this is no limit of its own.
  if (!std::isfinite(audio.seconds()) || audio.seconds() < 0 ||
      audio.seconds() > engine::kMaxAudioRowNumbers) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.audio.seconds is ", audio.seconds(),
                     "; write a number above 0, such as 1.5, or leave it out"));
  }
  if (audio.samples() == 0 || audio.seconds() == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "layout.audio has both samples and seconds; set one");
}

}  // namespace

absl::Status CheckAudioLayout(const v1::DatasetLayout& layout) {
  if (layout.format() != v1::AUDIO) {
    if (!layout.has_audio()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("layout.audio is for AUDIO, the format is ",
                     v1::DatasetFormat_Name(layout.format())));
  }
  RETURN_IF_ERROR(CheckAudioLength(layout.audio()));
  if (layout.audio().rate() > engine::kMaxAudioRate) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layout.audio.rate is ", layout.audio().rate(), ", the limit is ",
        engine::kMaxAudioRate, " samples a second"));
  }
  return CheckClassNames(layout);
}

}  // namespace gpupool::server
