#include "engine/data/audio/decode.h"

#include <sndfile.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/audio_limits.h"
#include "engine/base/status_macros.h"
#include "engine/data/audio/wav_header.h"

namespace gpupool::engine {
namespace {

// Samples that are decoded at once.
constexpr uint64_t kReadSamples = 4096;

// A file in memory, as libsndfile reads it.
struct AudioBytes {
  absl::string_view bytes;
  sf_count_t place = 0;
};

sf_count_t AudioLength(void* self) {
  return static_cast<sf_count_t>(static_cast<AudioBytes*>(self)->bytes.size());
}

sf_count_t SeekAudio(sf_count_t offset, int whence, void* self) {
  auto* file = static_cast<AudioBytes*>(self);
  const sf_count_t from = whence == SEEK_SET   ? 0
                          : whence == SEEK_CUR ? file->place
                                               : AudioLength(self);
  // Offsets come from the file, so their sum may overflow.
  sf_count_t to = 0;
  if (!__builtin_add_overflow(from, offset, &to) && to >= 0) {
    file->place = std::min(to, AudioLength(self));
  }
  return file->place;
}

sf_count_t ReadAudioBytes(void* to, sf_count_t count, void* self) {
  auto* file = static_cast<AudioBytes*>(self);
  count = std::clamp<sf_count_t>(count, 0, AudioLength(self) - file->place);
  std::memcpy(to, file->bytes.data() + file->place, static_cast<size_t>(count));
  file->place += count;
  return count;
}

sf_count_t WriteAudio(const void*, sf_count_t, void*) { return 0; }

sf_count_t TellAudio(void* self) {
  return static_cast<AudioBytes*>(self)->place;
}

struct CloseAudio {
  void operator()(SNDFILE* file) const { sf_close(file); }
};
using AudioFile = std::unique_ptr<SNDFILE, CloseAudio>;

absl::Status CheckContainer(absl::string_view bytes) {
  if (IsWav(bytes)) return CheckWavHeader(bytes);
  if (absl::StartsWith(bytes, "fLaC")) return absl::OkStatus();
  return absl::InvalidArgumentError(
      bytes.empty() ? "is empty; save it again or leave it out"
                    : "is neither WAV nor FLAC, whatever its name says; "
                      "convert it or leave it out");
}

bool IsPlain(int format) {
  const int container = format & SF_FORMAT_TYPEMASK;
  const int encoding = format & SF_FORMAT_SUBMASK;
  constexpr int kContainers[] = {SF_FORMAT_WAV, SF_FORMAT_WAVEX,
                                 SF_FORMAT_FLAC};
  constexpr int kEncodings[] = {
      SF_FORMAT_PCM_S8, SF_FORMAT_PCM_U8, SF_FORMAT_PCM_16,
      SF_FORMAT_PCM_24, SF_FORMAT_PCM_32, SF_FORMAT_FLOAT,
      SF_FORMAT_DOUBLE, SF_FORMAT_ULAW,   SF_FORMAT_ALAW};
  const auto has = [](const auto& list, int value) {
    return std::find(std::begin(list), std::end(list), value) != std::end(list);
  };
  return has(kContainers, container) && has(kEncodings, encoding);
}

absl::Status CheckInfo(const SF_INFO& info) {
  if (!IsPlain(info.format)) {
    return absl::InvalidArgumentError(
        "has an encoding that is not read; save it as PCM of 16 bits");
  }
  if (info.channels < 1 ||
      info.channels > static_cast<int>(kMaxAudioChannels)) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", info.channels, " channels; 1 to ",
                     kMaxAudioChannels, " are possible: save it with fewer"));
  }
  if (info.samplerate < 1 ||
      info.samplerate > static_cast<int>(kMaxAudioRate)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", info.samplerate, " samples a second; 1 to ", kMaxAudioRate,
        " are possible: save it with another rate"));
  }
  // This is what libsndfile says of FLAC files that were written to a pipe.
  if (info.frames == SF_COUNT_MAX) {
    return absl::InvalidArgumentError(
        "does not say how many samples it has, as if it was written to a pipe; "
        "save it again as a file, or as WAV");
  }
  if (info.frames >= 1) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "has no samples; record it again or leave it out");
}

absl::Status CheckFinite(const std::vector<float>& numbers, uint32_t channels) {
  const auto bad = std::find_if(numbers.begin(), numbers.end(),
                                [](float x) { return !std::isfinite(x); });
  if (bad == numbers.end()) return absl::OkStatus();
  const uint64_t place = static_cast<uint64_t>(bad - numbers.begin());
  return absl::InvalidArgumentError(
      absl::StrCat("has ", *bad, " as sample ", place / channels,
                   " of channel ", place % channels,
                   "; only finite numbers are possible: record it again "
                   "or leave it out"));
}

// Decodes the first `samples` samples of each channel.
absl::Status DecodeNumbers(SNDFILE* file, uint64_t samples,
                           DecodedAudio& audio) {
  std::vector<float> part(kReadSamples * audio.channels);
  for (uint64_t done = 0; done < samples;) {
    const uint64_t wanted = std::min(kReadSamples, samples - done);
    const sf_count_t count =
        sf_readf_float(file, part.data(), static_cast<sf_count_t>(wanted));
    if (count <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "ends after ", done, " of the ", audio.samples,
          " samples that its header claims; it is cut off or damaged: save it "
          "again or leave it out"));
    }
    const uint64_t found = std::min(static_cast<uint64_t>(count), wanted);
    audio.numbers.insert(
        audio.numbers.end(), part.begin(),
        part.begin() + static_cast<std::ptrdiff_t>(found * audio.channels));
    done += found;
  }
  return CheckFinite(audio.numbers, audio.channels);
}

}  // namespace

absl::StatusOr<DecodedAudio> DecodeAudio(absl::string_view bytes,
                                         uint64_t most_samples) {
  RETURN_IF_ERROR(CheckContainer(bytes));
  AudioBytes memory = {bytes, 0};
  SF_VIRTUAL_IO functions = {AudioLength, SeekAudio, ReadAudioBytes, WriteAudio,
                             TellAudio};
  SF_INFO info = {};
  const AudioFile file(sf_open_virtual(&functions, SFM_READ, &info, &memory));
  if (file == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("is no ", IsWav(bytes) ? "WAV" : "FLAC",
                     " file that can be read; save it again or leave it out"));
  }
  RETURN_IF_ERROR(CheckInfo(info));
  DecodedAudio audio = {.rate = static_cast<uint32_t>(info.samplerate),
                        .channels = static_cast<uint32_t>(info.channels),
                        .samples = static_cast<uint64_t>(info.frames),
                        .numbers = {}};
  // A file may have more channels than the others of its dataset, and silence
  // is packed well, so that the count of samples is not enough of a limit.
  const uint64_t row_samples = kMaxAudioRowNumbers / audio.channels;
  RETURN_IF_ERROR(DecodeNumbers(
      file.get(), std::min({audio.samples, most_samples, row_samples}), audio));
  return audio;
}

}  // namespace gpupool::engine
