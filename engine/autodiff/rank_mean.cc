#include "engine/autodiff/rank_mean.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// The scalars that travel with the gradients of the last bucket.
constexpr const char* kScalars[] = {"loss", "earlier_loss", "stop_wanted"};

void SetOutput(absl::string_view name, ValueId value, Graph& graph) {
  for (GraphOutput& output : graph.mutable_outputs()) {
    if (output.name != name) continue;
    output.value = value;
    return;
  }
  graph.AddOutput(name, value);
}

}  // namespace

std::vector<int> OrderOfAppearance(const Graph& graph,
                                   absl::Span<const ValueId> gradients) {
  const GraphIndex index(graph);
  std::vector<int> order(gradients.size());
  std::iota(order.begin(), order.end(), 0);
  // The buckets are sent in the order in which gradients are made, while the
  // rest is still computed.
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return index.producer(gradients[static_cast<size_t>(a)]) <
           index.producer(gradients[static_cast<size_t>(b)]);
  });
  return order;
}

absl::Status AddRankMean(const RankMean& mean, GraphBuilder& builder,
                         std::vector<ValueId>& gradients) {
  // One rank has nobody to average with.
  if (mean.ranks == 1) return absl::OkStatus();
  const auto loss = builder.graph().FindOutput("loss");
  GPUPOOL_CHECK(loss.has_value());
  std::vector<uint64_t> elements;
  for (const ValueId gradient : gradients) {
    elements.push_back(
        static_cast<uint64_t>(builder.shape(gradient).elements()));
  }
  ASSIGN_OR_RETURN(const GradientBuckets buckets,
                   GradientBuckets::Plan(elements, mean.order, mean.sizes));
  ASSIGN_OR_RETURN(const ValueId earlier,
                   builder.Input("earlier_loss", {DType::kFloat32, {}}));
  ASSIGN_OR_RETURN(const ValueId stop,
                   builder.Input("stop_wanted", {DType::kFloat32, {}}));
  std::vector<ValueIds> members;
  ValueIds flats;
  for (const Bucket& bucket : buckets.buckets()) {
    ValueIds& values = members.emplace_back();
    for (const int parameter : bucket.parameters) {
      values.push_back(gradients[static_cast<size_t>(parameter)]);
    }
    // The loss is known by the time the last bucket is sent.
    if (members.size() == buckets.buckets().size()) {
      values.insert(values.end(), {*loss, earlier, stop});
    }
    ASSIGN_OR_RETURN(flats.emplace_back(),
                     builder.EmitOne(Op::kAllReduceStart, values,
                                     AllReduceAttributes{mean.ranks, {}}));
  }
  // All starts are emitted before the first wait; a wait in between would delay
  // the sums that follow.
  for (size_t b = 0; b < flats.size(); ++b) {
    AllReduceAttributes attributes{mean.ranks, {}};
    for (const ValueId value : members[b]) {
      attributes.shapes.push_back(builder.shape(value));
    }
    ASSIGN_OR_RETURN(ValueIds means,
                     builder.Emit(Op::kAllReduceWait, {flats[b]}, attributes));
    const Bucket& bucket = buckets.buckets()[b];
    for (size_t i = 0; i < bucket.parameters.size(); ++i) {
      gradients[static_cast<size_t>(bucket.parameters[i])] = means[i];
    }
    for (size_t i = bucket.parameters.size(); i < means.size(); ++i) {
      SetOutput(kScalars[i - bucket.parameters.size()], means[i],
                builder.graph());
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
