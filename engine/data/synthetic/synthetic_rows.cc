#include "engine/data/synthetic/synthetic_rows.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "absl/types/span.h"
#include "engine/base/philox.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/data/synthetic/figure.h"
#include "gpupool/v1/dataset.pb.h"

namespace gpupool::engine {
namespace {

constexpr double kTwoPi = 6.283185307179586;
// Centers of blobs are drawn from [-10, 10).
constexpr double kCenterRange = 10;
constexpr double kBlobNoise = 1;
constexpr double kSpiralNoise = 0.02;
constexpr double kShapeNoise = 0.1;

// Returns a number of N(0, 1) (Box and Muller 1958).
double NextNormal(Philox& random) {
  // More than 0, so that the logarithm is finite.
  const double radius = std::sqrt(-2 * std::log(1 - random.NextDouble()));
  return radius * std::cos(kTwoPi * random.NextDouble());
}

Philox StreamOf(uint64_t seed, std::string_view name) {
  return Philox(seed,
                PhiloxStreamId(PhiloxStream::kGeneral, PhiloxNameIndex(name)));
}

class RowMaker {
 public:
  RowMaker(const v1::SyntheticData& data, const SyntheticForm& form,
           uint64_t width)
      : data_(data),
        form_(form),
        width_(width),
        random_(StreamOf(data.seed(), "synthetic.rows")) {}

  absl::StatusOr<SyntheticRows> Make() {
    RETURN_IF_ERROR(Check());
    if (data_.kind() == v1::SyntheticData::BLOBS) DrawCenters();
    SyntheticRows rows;
    rows.features.resize(form_.rows * width_);
    rows.labels.reserve(form_.rows);
    for (uint64_t row = 0; row < form_.rows; ++row) {
      const auto label =
          static_cast<uint32_t>(random_.NextBelow(form_.classes));
      FillRow(label,
              absl::MakeSpan(rows.features).subspan(row * width_, width_));
      rows.labels.push_back(static_cast<float>(label));
    }
    return rows;
  }

 private:
  absl::Status Check() const {
    if (form_.classes < 1) return Refuse("synthetic data needs a class");
    switch (data_.kind()) {
      case v1::SyntheticData::BLOBS:
        return absl::OkStatus();
      case v1::SyntheticData::SPIRALS:
        if (form_.shape == std::vector<int64_t>{2}) return absl::OkStatus();
        return Refuse("spirals have 2 features, not ", width_);
      case v1::SyntheticData::SHAPES:
        if (form_.shape.size() != 3 || form_.shape[0] != 1) {
          return Refuse("shapes are images of one channel");
        }
        if (form_.classes <= kFigures) return absl::OkStatus();
        return Refuse("there are ", kFigures, " shapes, not ", form_.classes);
      default:
        return Refuse("the kind of synthetic data is unknown to this worker");
    }
  }

  void DrawCenters() {
    Philox random = StreamOf(data_.seed(), "synthetic.centers");
    centers_.resize(form_.classes * width_);
    for (double& number : centers_) {
      number = kCenterRange * (2 * random.NextDouble() - 1);
    }
  }

  double NoiseOr(double fallback) const {
    return data_.has_noise() ? data_.noise() : fallback;
  }

  // Fills the features of a row of class `label`.
  void FillRow(uint32_t label, absl::Span<float> out) {
    switch (data_.kind()) {
      case v1::SyntheticData::SPIRALS:
        return FillSpiral(label, out);
      case v1::SyntheticData::SHAPES:
        return FillShape(label, out);
      default:
        break;
    }
    const double noise = NoiseOr(kBlobNoise);
    for (uint64_t i = 0; i < width_; ++i) {
      out[i] = static_cast<float>(centers_[label * width_ + i] +
                                  noise * NextNormal(random_));
    }
  }

  // Places a point on the class's arm, which turns once from the center to the
  // unit circle.
  void FillSpiral(uint32_t label, absl::Span<float> out) {
    const double noise = NoiseOr(kSpiralNoise);
    const double radius = random_.NextDouble();
    const double angle =
        kTwoPi * (radius + static_cast<double>(label) / form_.classes);
    out[0] = static_cast<float>(radius * std::cos(angle) +
                                noise * NextNormal(random_));
    out[1] = static_cast<float>(radius * std::sin(angle) +
                                noise * NextNormal(random_));
  }

  // Draws the class's figure somewhere in the image: 1 inside, 0 outside.
  void FillShape(uint32_t label, absl::Span<float> out) {
    const double noise = NoiseOr(kShapeNoise);
    const auto height = static_cast<uint64_t>(form_.shape[1]);
    const auto width = static_cast<uint64_t>(form_.shape[2]);
    const auto side = static_cast<double>(std::min(height, width));
    const double size = side * (0.2 + 0.2 * random_.NextDouble());
    const double y = Between(size, static_cast<double>(height) - size);
    const double x = Between(size, static_cast<double>(width) - size);
    for (uint64_t i = 0; i < width_; ++i) {
      const Point point{(static_cast<double>(i % width) + 0.5 - x) / size,
                        (static_cast<double>(i / width) + 0.5 - y) / size};
      const double inside = IsInside(label, point) ? 1 : 0;
      out[i] = static_cast<float>(inside + noise * NextNormal(random_));
    }
  }

  double Between(double low, double high) {
    return low + (high - low) * random_.NextDouble();
  }

  const v1::SyntheticData& data_;
  const SyntheticForm& form_;
  const uint64_t width_;  // numbers of a row
  Philox random_;
  std::vector<double> centers_;  // blobs: class by class
};

}  // namespace

absl::StatusOr<SyntheticRows> MakeSyntheticRows(const v1::SyntheticData& data,
                                                const SyntheticForm& form) {
  uint64_t width = 1;
  for (const int64_t size : form.shape) width *= static_cast<uint64_t>(size);
  return RowMaker(data, form, width).Make();
}

}  // namespace gpupool::engine
