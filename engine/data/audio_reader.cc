#include "engine/data/audio_reader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/audio_limits.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"
#include "engine/data/audio/decode.h"
#include "engine/data/column_buffer.h"

namespace gpupool::engine {
namespace {

SampleKind AudioKind() {
  return {.noun = "recording",
          .formats = "WAV and FLAC",
          .listed_endings = ".wav or .flac",
          .example = "NAME.wav",
          .endings = {".wav", ".flac"},
          .refused = {".mp3", ".ogg", ".oga", ".opus", ".m4a", ".aac", ".wma",
                      ".aif", ".aiff", ".au", ".caf", ".w64"}};
}

absl::StatusOr<DecodedAudio> DecodeSample(const Sample& sample,
                                          uint64_t most_samples) {
  auto audio = DecodeAudio(sample.bytes, most_samples);
  if (!audio.ok()) {
    return absl::Status(
        audio.status().code(),
        absl::StrCat(PlaceOf(sample), " ", audio.status().message()));
  }
  return audio;
}

// Decodes recordings to rows of one length, rate and count of channels.
class AudioRows {
 public:
  AudioRows(const Samples& found, const AudioOptions& options)
      : samples_(found.samples), options_(options) {}

  // Takes from the first recording what the options leave open.
  absl::Status FindForm() {
    ASSIGN_OR_RETURN(const DecodedAudio first, DecodeSample(samples_[0], 0));
    facts_.rate = options_.rate != 0 ? options_.rate : first.rate;
    facts_.channels = first.channels;
    facts_.shortest = facts_.longest = first.samples;
    fixed_ = options_.samples != 0 || options_.seconds != 0;
    const double length =
        options_.samples != 0   ? static_cast<double>(options_.samples)
        : options_.seconds != 0 ? std::round(options_.seconds * facts_.rate)
                                : static_cast<double>(first.samples);
    if (length >= 1 && length * facts_.channels <= kMaxAudioRowNumbers) {
      row_samples_ = static_cast<uint64_t>(length);
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        PlaceOf(samples_[0]), ": rows of ", absl::StrFormat("%.0f", length),
        " samples and ", Counted(facts_.channels, "channel"),
        " are not possible; a row has 1 to ", kMaxAudioRowNumbers,
        " numbers: set another length in "
        "layout.audio.samples (gpupool: --audio-samples)"));
  }

  uint64_t row_samples() const { return row_samples_; }
  const AudioFacts& facts() const { return facts_; }

  absl::Status DecodeAll(ColumnBuffer& buffer) {
    std::vector<float> row(row_samples_ * facts_.channels);
    for (const Sample& sample : samples_) {
      ASSIGN_OR_RETURN(const DecodedAudio audio,
                       DecodeSample(sample, row_samples_));
      RETURN_IF_ERROR(CheckForm(sample, audio));
      Count(audio.samples);
      FillRow(audio, row);
      RETURN_IF_ERROR(buffer.Append({reinterpret_cast<const char*>(row.data()),
                                     row.size() * sizeof(float)}));
    }
    return absl::OkStatus();
  }

 private:
  absl::Status CheckForm(const Sample& sample,
                         const DecodedAudio& audio) const {
    const std::string first =
        absl::StrCat("the first recording, ",
                     absl::Utf8SafeCHexEscape(samples_[0].name), ", has ");
    if (audio.rate != facts_.rate) {
      return absl::InvalidArgumentError(absl::StrCat(
          PlaceOf(sample), " has ", audio.rate, " samples a second, but ",
          options_.rate != 0 ? "layout.audio.rate is " : first, facts_.rate,
          "; nothing is resampled: convert it to that rate (such as `sox "
          "FILE -r ",
          facts_.rate, " NEW`) or leave it out"));
    }
    if (audio.channels != facts_.channels) {
      return absl::InvalidArgumentError(absl::StrCat(
          PlaceOf(sample), " has ", Counted(audio.channels, "channel"),
          ", but ", first, facts_.channels,
          "; nothing is mixed: convert it (such as `sox FILE -c ",
          facts_.channels, " NEW`) or leave it out"));
    }
    if (fixed_ || audio.samples == row_samples_) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        PlaceOf(sample), " has ", Counted(audio.samples, "sample"), ", but ",
        first, row_samples_,
        "; set layout.audio.samples, so that recordings are cut and padded "
        "(gpupool: --audio-samples ",
        row_samples_, ")"));
  }

  void Count(uint64_t samples) {
    facts_.shortest = std::min(facts_.shortest, samples);
    facts_.longest = std::max(facts_.longest, samples);
    if (samples > row_samples_) ++facts_.cut_rows;
    if (samples < row_samples_) ++facts_.padded_rows;
  }

  // Fills in the channels one after the other, and zeros behind each.
  void FillRow(const DecodedAudio& audio, std::vector<float>& row) const {
    const size_t channels = facts_.channels;
    const size_t present = audio.numbers.size() / channels;
    std::fill(row.begin(), row.end(), 0.0f);
    for (size_t c = 0; c < channels; ++c) {
      for (size_t i = 0; i < present; ++i) {
        row[c * row_samples_ + i] = audio.numbers[i * channels + c];
      }
    }
  }

  const std::vector<Sample>& samples_;
  const AudioOptions& options_;
  bool fixed_ = false;  // recordings are cut and padded
  uint64_t row_samples_ = 0;
  AudioFacts facts_;
};

absl::Status CheckAudioTable(uint64_t rows, uint64_t row_bytes,
                             const ReadLimits& limits) {
  if (CheckedTableBytes(rows, row_bytes, limits).ok()) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(
      rows, " recordings of ", row_bytes, " bytes each exceed the limit of ",
      limits.max_table_bytes,
      " bytes for an unpacked dataset; set a smaller layout.audio.samples "
      "(gpupool: --audio-samples)"));
}

}  // namespace

absl::StatusOr<Table> ReadAudio(absl::Span<const SampleArchive> archives,
                                const AudioOptions& options,
                                const ReadLimits& limits) {
  ASSIGN_OR_RETURN(Samples found,
                   FindSamples(archives, AudioKind(), options.classes));
  AudioRows rows(found, options);
  RETURN_IF_ERROR(rows.FindForm());
  Table table;
  table.rows = found.samples.size();
  const uint64_t channels = rows.facts().channels;
  Column sound = {.type = ElementType::kFloat32,
                  .stored = ElementType::kFloat32,
                  .shape = {static_cast<int64_t>(channels),
                            static_cast<int64_t>(rows.row_samples())},
                  .rows = table.rows,
                  .width = channels * rows.row_samples()};
  const uint64_t row_bytes = sound.row_bytes() + sizeof(int64_t);
  RETURN_IF_ERROR(CheckAudioTable(table.rows, row_bytes, limits));
  // A table that is larger than memory allows is unpacked into a file.
  const bool on_disk = table.rows * row_bytes > limits.memory_bytes &&
                       !limits.unpack_dir.empty();
  ColumnBuffer bytes;
  RETURN_IF_ERROR(on_disk ? bytes.MoveToDisk(limits.unpack_dir)
                          : bytes.Reserve(table.rows * sound.row_bytes()));
  RETURN_IF_ERROR(rows.DecodeAll(bytes));
  RETURN_IF_ERROR(bytes.MoveTo(sound));
  ASSIGN_OR_RETURN(Column labels,
                   ColumnOfClasses(found.classes.of_samples,
                                   on_disk ? limits.unpack_dir : ""));
  table.inputs.push_back(std::move(sound));
  table.targets.push_back(std::move(labels));
  table.class_names = std::move(found.classes.names);
  table.audio = rows.facts();
  return table;
}

}  // namespace gpupool::engine
