#include "engine/train/step_work.h"

#include <algorithm>
#include <limits>
#include <set>
#include <vector>

#include "engine/graph/graph.h"
#include "engine/runtime/profiler.h"

namespace gpupool::engine {
namespace {

// Tensor cores take rows of 16 bytes: 8 numbers of 16 bits.
constexpr int64_t kEvenOutputs = 8;
constexpr size_t kMostOddProducts = 16;

bool IsProduct(Op op) {
  switch (op) {
    case Op::kMatMul:
    case Op::kConv2d:
    case Op::kBatchMatMul:
    case Op::kBlockedMatMul:
    case Op::kQuantizedConv2d:
    case Op::kAttention:
    case Op::kAttentionGrad:
    case Op::kConv2dInputGrad:
    case Op::kConv2dWeightGrad:
      return true;
    default:
      return false;
  }
}

// Returns the bytes that a node reads and writes. An op that picks elements
// reads as many as it writes.
uint64_t MovedBytes(const Graph& graph, const Node& node) {
  const uint64_t all = NodeBytes(graph, node);
  switch (node.op) {
    case Op::kSlice:
    case Op::kGather:
    case Op::kGatherElements:
    case Op::kGatherNd: {
      const uint64_t source = graph.value(node.inputs[0]).bytes();
      const uint64_t result = graph.value(node.outputs[0]).bytes();
      return all - source + std::min(source, result);
    }
    default:
      return all;
  }
}

// Adds `runs` times the work; sums saturate.
uint64_t PlusRuns(uint64_t sum, uint64_t runs, uint64_t work) {
  uint64_t added = 0;
  if (__builtin_mul_overflow(runs, work, &added) ||
      __builtin_add_overflow(sum, added, &sum)) {
    return std::numeric_limits<uint64_t>::max();
  }
  return sum;
}

void AddWork(const Program& program, uint64_t runs, v1::StepWork& work) {
  const Graph& graph = program.graph();
  for (size_t i = program.load_launches(); i < program.launches().size(); ++i) {
    const Node& node =
        graph.nodes()[static_cast<size_t>(program.launches()[i].node)];
    const uint64_t flops = NodeFlops(graph, node);
    const uint64_t bytes = MovedBytes(graph, node);
    work.set_kernels(work.kernels() + runs);
    if (IsProduct(node.op)) {
      work.set_product_flops(PlusRuns(work.product_flops(), runs, flops));
      work.set_product_bytes(PlusRuns(work.product_bytes(), runs, bytes));
    } else {
      work.set_other_flops(PlusRuns(work.other_flops(), runs, flops));
      work.set_other_bytes(PlusRuns(work.other_bytes(), runs, bytes));
    }
  }
}

// Returns the weight from which the value is made by nodes of one input, such
// as casts and transposes; an invalid id when there is none.
ValueId WeightOf(const Graph& graph, const GraphIndex& index, ValueId id) {
  while (true) {
    const Value& value = graph.value(id);
    if (value.kind == ValueKind::kPersistent) {
      return value.memory_class == MemoryClass::kWeight ? id : ValueId();
    }
    const int producer = index.producer(id);
    if (producer < 0) return ValueId();
    const Node& node = graph.nodes()[static_cast<size_t>(producer)];
    if (node.inputs.size() != 1) return ValueId();
    id = node.inputs[0];
  }
}

// A forward product with a weight.
struct WeightProduct {
  const Node* node;
  uint64_t outputs;
  uint64_t flops;
};

// Returns the first product of each weight. The forward pass comes first.
std::vector<WeightProduct> WeightProducts(const Graph& graph) {
  const GraphIndex index(graph);
  std::vector<WeightProduct> products;
  std::set<ValueId> seen;
  for (const Node& node : graph.nodes()) {
    if (node.op != Op::kMatMul && node.op != Op::kConv2d) continue;
    const ValueId weight = WeightOf(graph, index, node.inputs[1]);
    if (!weight.valid() || !seen.insert(weight).second) continue;
    const Shape& shape = graph.value(node.outputs[0]).shape;
    const int64_t outputs = node.op == Op::kConv2d
                                ? shape.dims()[1]
                                : shape.dims()[shape.dims().size() - 1];
    products.push_back(
        {&node, static_cast<uint64_t>(outputs), NodeFlops(graph, node)});
  }
  return products;
}

void AddOddProducts(const Graph& graph, v1::StepWork& work) {
  std::vector<WeightProduct> products = WeightProducts(graph);
  double all = 0;
  for (const WeightProduct& product : products) {
    all += static_cast<double>(product.flops);
  }
  std::stable_sort(products.begin(), products.end(),
                   [](const WeightProduct& a, const WeightProduct& b) {
                     return a.flops > b.flops;
                   });
  for (const WeightProduct& product : products) {
    if (product.outputs % kEvenOutputs == 0 || product.flops == 0) continue;
    if (work.odd_products().size() == kMostOddProducts) return;
    v1::OddProduct& odd = *work.add_odd_products();
    odd.set_layer(product.node->source);
    odd.set_outputs(product.outputs);
    odd.set_share(static_cast<double>(product.flops) / all);
    odd.set_convolution(product.node->op == Op::kConv2d);
  }
}

}  // namespace

v1::StepWork StepWorkOf(const TrainingPrograms& programs) {
  v1::StepWork work;
  AddWork(programs.train, 1, work);
  if (programs.accumulate.has_value()) {
    AddWork(*programs.accumulate, programs.batches_per_step - 1, work);
  }
  AddOddProducts(programs.train.graph(), work);
  return work;
}

}  // namespace gpupool::engine
