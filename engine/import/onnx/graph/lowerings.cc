#include "engine/import/onnx/graph/lowerings.h"

#include <algorithm>
#include <tuple>
#include <vector>

namespace gpupool::engine::onnx_import {
namespace {

using Key = std::tuple<absl::string_view, absl::string_view>;

Key KeyOf(const OperatorEntry& entry) { return {entry.domain, entry.name}; }

std::vector<OperatorEntry> Collect() {
  std::vector<OperatorEntry> all;
  for (const auto family : {ElementwiseOperators(),
                            ActivationOperators(),
                            ReduceOperators(),
                            ShapeOperators(),
                            CreateOperators(),
                            IndexOperators(),
                            SelectOperators(),
                            ConvOperators(),
                            PoolOperators(),
                            NormOperators(),
                            MatMulOperators(),
                            EinsumOperators(),
                            AttentionOperators(),
                            RecurrentOperators(),
                            ResizeOperators(),
                            LossOperators(),
                            TrainingOperators(),
                            QuantizeOperators(),
                            DetectionOperators(),
                            SamplingOperators(),
                            RandomOperators(),
                            SignalOperators(),
                            ColumnOperators(),
                            LinearAttentionOperators(),
                            FusedActivationOperators(),
                            SkipNormOperators(),
                            FusedProductOperators(),
                            QuantizedOperators(),
                            QuantizedProductOperators(),
                            PackedAttentionOperators(),
                            GroupedAttentionOperators(),
                            FeatureOperators(),
                            LinearModelOperators(),
                            SvmOperators(),
                            TreeOperators()}) {
    all.insert(all.end(), family.begin(), family.end());
  }
  // FindOperator() needs this order.
  std::sort(all.begin(), all.end(),
            [](const OperatorEntry& a, const OperatorEntry& b) {
              return KeyOf(a) < KeyOf(b);
            });
  return all;
}

}  // namespace

absl::Span<const OperatorEntry> Operators() {
  // This is never destroyed, so it is safe to use at any time.
  static const std::vector<OperatorEntry>& all =
      *new std::vector<OperatorEntry>(Collect());
  return all;
}

const OperatorEntry* FindOperator(absl::string_view domain,
                                  absl::string_view name) {
  // Both names mean the default domain.
  if (domain == "ai.onnx") domain = "";
  const absl::Span<const OperatorEntry> all = Operators();
  const auto entry = std::lower_bound(
      all.begin(), all.end(), Key{domain, name},
      [](const OperatorEntry& a, const Key& key) { return KeyOf(a) < key; });
  if (entry == all.end() || KeyOf(*entry) != Key{domain, name}) return nullptr;
  return &*entry;
}

}  // namespace gpupool::engine::onnx_import
