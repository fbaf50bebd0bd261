#include "engine/train/initial_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/philox.h"
#include "engine/base/status_macros.h"
#include "engine/runtime/weight_view.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine {
namespace {

// Fills `out` with numbers of N(0, deviation^2), in pairs (Box and Muller
// 1958).
void FillNormal(double deviation, Philox& random, absl::Span<float> out) {
  constexpr double kTwoPi = 6.283185307179586;
  for (size_t i = 0; i < out.size(); i += 2) {
    // More than 0, so that the logarithm is finite.
    const double radius =
        deviation * std::sqrt(-2 * std::log(1 - random.NextDouble()));
    const double angle = kTwoPi * random.NextDouble();
    out[i] = static_cast<float>(radius * std::cos(angle));
    if (i + 1 == out.size()) return;
    out[i + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

// Fills a value with its constant, with uniform numbers in [-bound, bound), or
// with normal numbers.
void Fill(const PersistentSpec& spec, uint64_t seed, absl::Span<float> out) {
  if (spec.initializer.kind == Initializer::Kind::kConstant) {
    std::fill(out.begin(), out.end(),
              static_cast<float>(spec.initializer.value));
    return;
  }
  Philox random(
      seed, PhiloxStreamId(PhiloxStream::kWeights, PhiloxNameIndex(spec.name)));
  if (spec.initializer.kind == Initializer::Kind::kNormal) {
    FillNormal(spec.initializer.deviation, random, out);
    return;
  }
  const double bound = spec.initializer.bound;
  for (float& value : out) {
    value = static_cast<float>((2.0 * random.NextFloat() - 1.0) * bound);
  }
}

bool StartsAtZero(const Initializer& initializer) {
  return initializer.kind == Initializer::Kind::kConstant &&
         initializer.value == 0;
}

absl::Status SetNumbers(const ModelSource& source, const PersistentSpec& spec,
                        uint64_t seed, absl::Span<std::byte> bytes) {
  if (spec.initializer.kind == Initializer::Kind::kStored) {
    return source.ReadStored(spec.name, bytes);
  }
  if (spec.dtype == DType::kFloat32) {
    Fill(
        spec, seed,
        {reinterpret_cast<float*>(bytes.data()), bytes.size() / sizeof(float)});
    return absl::OkStatus();
  }
  if (!StartsAtZero(spec.initializer)) {
    return absl::UnimplementedError(
        absl::StrCat("\"", spec.name, "\": ", DTypeName(spec.dtype),
                     " values cannot be initialized"));
  }
  std::memset(bytes.data(), 0, bytes.size());
  return absl::OkStatus();
}

bool IsNarrowed(DType from, DType to) {
  return from == DType::kFloat32 &&
         (to == DType::kBFloat16 || to == DType::kFloat16);
}

absl::Status SetOne(const ModelSource& source, const PersistentSpec& spec,
                    uint64_t seed, const WeightView& weights) {
  const absl::Span<std::byte> bytes = weights.Find(spec.name);
  if (bytes.size() == spec.shape.bytes(spec.dtype)) {
    return SetNumbers(source, spec, seed, bytes);
  }
  const WeightEntry* entry = weights.layout().Find(spec.name);
  if (entry == nullptr || entry->shape != spec.shape ||
      !IsNarrowed(spec.dtype, entry->dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the weight store has no \"", spec.name, "\" of ",
                     spec.shape.bytes(spec.dtype), " bytes"));
  }
  // The store keeps the weight in 16 bits: the numbers are made in float32 and
  // rounded once.
  std::vector<std::byte> numbers(spec.shape.bytes(spec.dtype));
  RETURN_IF_ERROR(SetNumbers(source, spec, seed, absl::MakeSpan(numbers)));
  ConvertElements({spec.dtype, numbers.data()}, {entry->dtype, bytes.data()},
                  spec.shape.elements());
  return absl::OkStatus();
}

}  // namespace

absl::Status SetInitialWeights(const ModelSource& source,
                               const std::vector<PersistentSpec>& persistents,
                               uint64_t seed, const WeightStore& store) {
  ASSIGN_OR_RETURN(const WeightView weights, WeightView::OfNew(store));
  for (const PersistentSpec& spec : persistents) {
    RETURN_IF_ERROR(SetOne(source, spec, seed, weights));
  }
  return weights.Commit();
}

}  // namespace gpupool::engine
