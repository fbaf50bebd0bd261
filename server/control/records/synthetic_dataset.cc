#include "server/control/records/synthetic_dataset.h"

#include <cmath>

#include "absl/strings/string_view.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

using engine::Refuse;

constexpr uint64_t kDefaultRows = 1000;
constexpr uint64_t kMaxRows = 10'000'000;
// A gibibyte of float32.
constexpr uint64_t kMaxNumbers = uint64_t{1} << 28;
constexpr uint32_t kMaxClasses = 1000;
constexpr uint32_t kMaxFeatures = 4096;
constexpr double kMaxNoise = 1e6;
constexpr int64_t kImageSide = 16;

// The limits and defaults of a kind.
struct KindFacts {
  uint32_t default_classes = 0;
  uint32_t most_classes = 0;
  std::vector<int64_t> shape;
};

absl::StatusOr<KindFacts> FactsOfKind(const v1::SyntheticData& data) {
  if (data.features() > 0 && data.kind() != v1::SyntheticData::BLOBS) {
    return Refuse("data.synthetic.features is for blobs");
  }
  switch (data.kind()) {
    case v1::SyntheticData::BLOBS: {
      if (data.features() > kMaxFeatures) {
        return Refuse("data.synthetic.features is ", data.features(),
                      "; it must be 1 .. ", kMaxFeatures);
      }
      const int64_t features = data.features() == 0 ? 2 : data.features();
      return KindFacts{3, kMaxClasses, {features}};
    }
    case v1::SyntheticData::SPIRALS:
      return KindFacts{3, kMaxClasses, {2}};
    case v1::SyntheticData::SHAPES:
      return KindFacts{4, 4, {1, kImageSide, kImageSide}};
    default:
      return Refuse("data.synthetic.kind must be blobs, spirals or shapes");
  }
}

absl::Status CheckNumbers(const v1::SyntheticData& data,
                          const KindFacts& facts) {
  if (data.rows() > kMaxRows) {
    return Refuse("data.synthetic.rows is ", data.rows(), "; it must be 1 .. ",
                  kMaxRows);
  }
  if (data.classes() > facts.most_classes) {
    return Refuse("data.synthetic.classes is ", data.classes(),
                  "; this kind has 1 .. ", facts.most_classes);
  }
  if (!data.has_noise() || (data.noise() >= 0 && data.noise() <= kMaxNoise)) {
    return absl::OkStatus();
  }
  return Refuse("data.synthetic.noise is ", data.noise(), "; it must be 0 .. ",
                kMaxNoise);
}

}  // namespace

absl::StatusOr<v1::Dataset> SyntheticDataset(const v1::SyntheticData& data) {
  ASSIGN_OR_RETURN(const KindFacts facts, FactsOfKind(data));
  RETURN_IF_ERROR(CheckNumbers(data, facts));
  v1::Dataset dataset;
  *dataset.mutable_synthetic() = data;
  dataset.set_rows(data.rows() == 0 ? kDefaultRows : data.rows());
  dataset.set_classes(data.classes() == 0 ? facts.default_classes
                                          : data.classes());
  dataset.set_feature_type(v1::FLOAT32);
  uint64_t numbers = 1;  // of a row: the label and the features
  uint64_t width = 1;
  for (const int64_t size : facts.shape) {
    dataset.add_feature_shape(size);
    width *= static_cast<uint64_t>(size);
  }
  numbers += width;
  if (dataset.rows() > kMaxNumbers / numbers) {
    return Refuse("data.synthetic has ", dataset.rows(), " rows of ", numbers,
                  " numbers; at most ", kMaxNumbers, " numbers are possible");
  }
  v1::LabelFacts& labels = *dataset.mutable_labels();
  labels.set_whole(true);
  labels.set_minimum(0);
  labels.set_maximum(dataset.classes() - 1);
  return dataset;
}

}  // namespace gpupool::server
