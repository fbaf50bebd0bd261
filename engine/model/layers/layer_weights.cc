#include "engine/model/layers/layer_weights.h"

#include <cmath>
#include <string>

#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/model.pb.h"

namespace gpupool::engine {
namespace {

// Deviation of NORMAL without initial_deviation.
constexpr double kDefaultDeviation = 0.02;

Initializer FanInUniform(int64_t fan_in) {
  return {.kind = Initializer::Kind::kUniform,
          .bound = 1.0 / std::sqrt(static_cast<double>(fan_in))};
}

// Returns N(0, 2 / fan_out).
Initializer KaimingNormal(int64_t fan_out) {
  return {.kind = Initializer::Kind::kNormal,
          .deviation = std::sqrt(2.0 / static_cast<double>(fan_out))};
}

bool IsAlwaysNormal(const v1::Layer& layer) {
  return layer.has_embedding() || layer.has_class_token() ||
         layer.has_positions();
}

absl::Status CheckDistribution(const v1::Layer& layer) {
  switch (layer.initial_weight()) {
    case v1::Layer::INITIAL_UNSPECIFIED:
      return absl::OkStatus();
    case v1::Layer::KAIMING_NORMAL:
    case v1::Layer::NORMAL:
      if (!layer.dense().tied_to().empty()) {
        return Refuse("initial_weight is for a weight of its own, but tied_to ",
                      "takes that of '", layer.dense().tied_to(),
                      "'; leave it out");
      }
      if (layer.has_dense() || layer.has_conv2d()) return absl::OkStatus();
      return Refuse("initial_weight is for dense and conv2d");
    default:
      return Refuse("initial_weight is ",
                    static_cast<int>(layer.initial_weight()),
                    ", which this server does not know");
  }
}

}  // namespace

absl::StatusOr<ValueId> LayerWeights::Add(absl::string_view name,
                                          const Shape& shape,
                                          MemoryClass memory_class,
                                          const Initializer& initializer) {
  ASSIGN_OR_RETURN(
      const ValueId id,
      builder_->Persistent(name, {DType::kFloat32, shape}, memory_class));
  persistents_->push_back({.name = std::string(name),
                           .shape = shape,
                           .memory_class = memory_class,
                           .initializer = initializer});
  return id;
}

absl::Status CheckInitial(const v1::Layer& layer) {
  RETURN_IF_ERROR(CheckDistribution(layer));
  if (!layer.has_initial_deviation()) return absl::OkStatus();
  if (layer.initial_weight() != v1::Layer::NORMAL && !IsAlwaysNormal(layer)) {
    return Refuse(
        "initial_deviation is for layers with initial_weight: normal, and for "
        "embedding, class_token and positions");
  }
  const double deviation = layer.initial_deviation();
  // Weights are float32.
  if (deviation >= 0 && std::isfinite(static_cast<float>(deviation))) {
    return absl::OkStatus();
  }
  return Refuse("initial_deviation ", deviation,
                " must be at least 0 and finite");
}

Initializer InitialWeight(const v1::Layer& layer, const Fans& fans) {
  switch (layer.initial_weight()) {
    case v1::Layer::KAIMING_NORMAL:
      return KaimingNormal(fans.out);
    case v1::Layer::NORMAL:
      return InitialNormal(layer, kDefaultDeviation);
    default:
      return FanInUniform(fans.in);
  }
}

Initializer InitialBias(const v1::Layer& layer, const Fans& fans) {
  if (layer.initial_weight() == v1::Layer::NORMAL) return {.value = 0};
  return FanInUniform(fans.in);
}

Initializer InitialNormal(const v1::Layer& layer, double deviation) {
  return {.kind = Initializer::Kind::kNormal,
          .deviation = layer.has_initial_deviation() ? layer.initial_deviation()
                                                     : deviation};
}

}  // namespace gpupool::engine
