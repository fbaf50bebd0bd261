#include "engine/train/input/batch_mix.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/mix_numbers.h"
#include "engine/base/philox.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// Returns a number of the standard normal distribution (Box and Muller).
double DrawNormal(Philox& random) {
  const double radius = std::sqrt(-2 * std::log(1 - random.NextDouble()));
  return radius * std::cos(2 * std::numbers::pi * random.NextDouble());
}

// Returns the logarithm of a number of Gamma(alpha, 1), by rejection (Marsaglia
// and Tsang, "A Simple Method for Generating Gamma Variables", 2000). The
// number itself may be too small for a double.
double DrawLogGamma(double alpha, Philox& random) {
  double factor = 0;
  if (alpha < 1) {
    factor = std::log(1 - random.NextDouble()) / alpha;
    alpha += 1;
  }
  const double d = alpha - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  for (;;) {
    const double x = DrawNormal(random);
    const double v = std::pow(1 + c * x, 3);
    const double u = 1 - random.NextDouble();
    if (v <= 0) continue;
    if (std::log(u) < x * x / 2 + d - d * v + d * std::log(v)) {
      return std::log(d * v) + factor;
    }
  }
}

// Returns a number of Beta(alpha, alpha).
double DrawBeta(double alpha, Philox& random) {
  // Smaller ones give 0 or 1 just as well, but their logarithms overflow.
  alpha = std::max(alpha, 1e-9);
  const double a = DrawLogGamma(alpha, random);
  const double b = DrawLogGamma(alpha, random);
  return 1 / (1 + std::exp(b - a));
}

// Draws the box that is replaced. Its area is the share 1 - lambda of the image
// if it is inside. Sets lambda to the share that stays.
void DrawBox(const ImageShape& image, double lambda, Philox& random,
             BatchMix& mix) {
  const double side = std::sqrt(1 - lambda) / 2;
  const auto y = static_cast<int64_t>(
      random.NextBelow(static_cast<uint64_t>(image.height)));
  const auto x = static_cast<int64_t>(
      random.NextBelow(static_cast<uint64_t>(image.width)));
  const auto half_height =
      static_cast<int64_t>(side * static_cast<double>(image.height));
  const auto half_width =
      static_cast<int64_t>(side * static_cast<double>(image.width));
  ImageBox box = {.top = std::max<int64_t>(y - half_height, 0),
                  .left = std::max<int64_t>(x - half_width, 0)};
  box.height = std::min(y + half_height, image.height) - box.top;
  box.width = std::min(x + half_width, image.width) - box.left;
  mix.lambda = static_cast<float>(1 - static_cast<double>(box.height) *
                                          static_cast<double>(box.width) /
                                          static_cast<double>(image.plane()));
  mix.box = box;
  mix.image = image;
}

void MixRow(const BatchMix& mix, absl::Span<const float> other,
            absl::Span<float> row) {
  if (!mix.box.has_value()) {
    const float share = 1 - mix.lambda;
    for (size_t i = 0; i < row.size(); ++i) {
      row[i] = mix.lambda * row[i] + share * other[i];
    }
    return;
  }
  const ImageShape& image = mix.image;
  GPUPOOL_CHECK(row.size() == static_cast<size_t>(image.numbers()));
  for (int64_t c = 0; c < image.channels; ++c) {
    for (int64_t y = 0; y < mix.box->height; ++y) {
      const auto begin = static_cast<size_t>(
          c * image.plane() + (mix.box->top + y) * image.width + mix.box->left);
      const auto from =
          other.subspan(begin, static_cast<size_t>(mix.box->width));
      std::copy(from.begin(), from.end(), row.subspan(begin).begin());
    }
  }
}

}  // namespace

absl::Status CheckMix(const v1::TrainingSpec& training) {
  if (!training.has_mix()) return absl::OkStatus();
  const v1::Mix& mix = training.mix();
  RETURN_IF_ERROR(CheckMixNumbers(mix));
  if (!mix.has_mixup_alpha() && !mix.has_cutmix_alpha()) {
    return Refuse(
        "training.mix has neither mixup_alpha nor cutmix_alpha; set one of "
        "them, such as mixup_alpha: 0.2, or leave mix out");
  }
  if (!mix.has_switch_probability() ||
      (mix.has_mixup_alpha() && mix.has_cutmix_alpha())) {
    return absl::OkStatus();
  }
  return Refuse(
      "training.mix.switch_probability chooses between mixup and cutmix, but "
      "only ",
      mix.has_mixup_alpha() ? "mixup_alpha" : "cutmix_alpha",
      " is set; set both, or leave switch_probability out");
}

absl::StatusOr<std::optional<MixOptions>> MixOptionsOf(
    const v1::TrainingSpec& training, const std::vector<ModelPort>& inputs) {
  if (!training.has_mix()) return std::optional<MixOptions>();
  for (const ModelPort& input : inputs) {
    if (input.dtype == DType::kFloat32) continue;
    return Refuse("training.mix mixes the numbers of rows, but the model's ",
                  "input '", input.name, "' is ", DTypeName(input.dtype),
                  "; mix only models whose inputs are float32");
  }
  MixOptions options = {.mix = training.mix(), .seed = training.seed()};
  if (training.mix().has_cutmix_alpha()) {
    if (inputs.size() != 1) {
      return Refuse("training.mix.cutmix_alpha is for models with one input, ",
                    "but this one has ", inputs.size(),
                    "; use mixup_alpha instead");
    }
    const Shape shape = inputs[0].example();
    if (shape.rank() != 2 && shape.rank() != 3) {
      return Refuse("training.mix.cutmix_alpha is for images [channels, ",
                    "height, width], but the model's input '", inputs[0].name,
                    "' is ", shape.ToString(), "; use mixup_alpha instead");
    }
    const int first = shape.rank() - 2;
    options.image = {.channels = first == 1 ? shape[0] : 1,
                     .height = shape[first],
                     .width = shape[first + 1]};
  }
  return std::optional<MixOptions>(std::move(options));
}

BatchMix DrawMix(const MixOptions& options, uint64_t batch, size_t rows) {
  const v1::Mix& mix = options.mix;
  Philox random(options.seed, PhiloxStreamId(PhiloxStream::kMix, batch));
  BatchMix drawn;
  drawn.partners.resize(rows);
  std::iota(drawn.partners.begin(), drawn.partners.end(), uint32_t{0});
  const double probability = mix.has_probability() ? mix.probability() : 1;
  if (random.NextDouble() >= probability) return drawn;
  const double to_cutmix =
      mix.has_switch_probability() ? mix.switch_probability() : 0.5;
  const bool cutmix =
      mix.has_cutmix_alpha() &&
      (!mix.has_mixup_alpha() || random.NextDouble() < to_cutmix);
  const double lambda =
      DrawBeta(cutmix ? mix.cutmix_alpha() : mix.mixup_alpha(), random);
  if (cutmix) {
    DrawBox(options.image, lambda, random, drawn);
  } else {
    drawn.lambda = static_cast<float>(lambda);
  }
  for (uint64_t i = rows; i > 1; --i) {
    std::swap(drawn.partners[i - 1], drawn.partners[random.NextBelow(i)]);
  }
  return drawn;
}

// Follows the cycles of the permutation: each row is mixed before the row that
// it reads, so only the first one of a cycle is kept aside.
void MixRows(const BatchMix& mix, absl::Span<float> rows) {
  const size_t count = mix.partners.size();
  if (count == 0 || (mix.lambda == 1 && !mix.box.has_value())) return;
  GPUPOOL_CHECK(rows.size() % count == 0);
  const size_t width = rows.size() / count;
  std::vector<bool> mixed(count);
  std::vector<float> first;
  for (size_t start = 0; start < count; ++start) {
    if (mixed[start]) continue;
    const auto begin = rows.subspan(start * width, width);
    first.assign(begin.begin(), begin.end());
    for (size_t row = start; !mixed[row]; row = mix.partners[row]) {
      const size_t other = mix.partners[row];
      absl::Span<const float> from = first;
      if (other != start) from = rows.subspan(other * width, width);
      MixRow(mix, from, rows.subspan(row * width, width));
      mixed[row] = true;
    }
  }
}

}  // namespace gpupool::engine
