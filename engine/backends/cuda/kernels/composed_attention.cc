#include "engine/backends/cuda/kernels/composed_attention.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/cuda/kernels/kernel_sequence.h"
#include "engine/backends/portable/product/attention_parts.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

using portable::AttentionChunk;
using portable::InputOf;
using portable::KernelOr;
using Place = OperandPlace;
using Places = std::vector<Place>;

struct Sizes {
  int64_t matrices, queries, keys, depth, width;

  uint64_t score_bytes() const {
    return static_cast<uint64_t>(queries) * static_cast<uint64_t>(keys) *
           sizeof(float);
  }
};

Sizes SizesOf(const CompileRequest& request) {
  const size_t first = request.node.op == Op::kAttention ? 0 : 1;
  const Shape& q = InputOf(request, first).shape;
  const Shape& v = InputOf(request, first + 2).shape;
  return {q[0] * q[1], q[2], v[2], q[3], v[3]};
}

// Returns whether the operands of `count` heads take a multiple of
// kAlignmentBytes, so that every part begins at an aligned address, as kernels
// expect.
bool KeepsAlignment(const Sizes& s, int64_t count) {
  for (const int64_t rows : {s.queries, s.keys}) {
    for (const int64_t columns : {s.depth, s.width}) {
      const auto bytes = static_cast<uint64_t>(count * rows * columns * 4);
      if (bytes != AlignUp(bytes)) return false;
    }
  }
  return true;
}

// Returns the largest divisor of the number of heads whose scores fit.
absl::StatusOr<int64_t> HeadsAtOnce(const Sizes& s, uint64_t bytes_of_one,
                                    const ComposedAttentionLimits& limits) {
  if (bytes_of_one > limits.most_scratch) {
    return absl::UnimplementedError(absl::StrCat(
        "the scores of one head take ", bytes_of_one,
        " bytes of scratch memory; at most ", limits.most_scratch,
        " are given to them. Use bf16 or fp16, whose kernels keep no scores"));
  }
  const auto most = static_cast<int64_t>(limits.most_scratch / bytes_of_one);
  const int64_t least_parts = (s.matrices + most - 1) / most;
  const int64_t most_parts = std::min(s.matrices, limits.most_parts);
  for (int64_t parts = least_parts; parts <= most_parts; ++parts) {
    const int64_t count = s.matrices / parts;
    const bool divides = s.matrices % parts == 0;
    if (divides && (parts == 1 || KeepsAlignment(s, count))) return count;
  }
  return absl::UnimplementedError(absl::StrCat(
      s.matrices, " heads cannot be computed in ", least_parts, " to ",
      most_parts, " equal parts that begin at a multiple of ", kAlignmentBytes,
      " bytes. Use a batch with more divisors, or a smaller one"));
}

// Builds the steps of one part after another.
class Composer {
 public:
  Composer(const CompileRequest& request,
           const portable::PortableContext& context,
           const ProductMaker& products)
      : request_(request),
        context_(context),
        products_(products),
        sizes_(SizesOf(request)) {}

  KernelOr Make(const ComposedAttentionLimits& limits) {
    const bool forward = request_.node.op == Op::kAttention;
    const uint64_t kept = forward ? 1 : 2;  // score matrices per head
    ASSIGN_OR_RETURN(count_,
                     HeadsAtOnce(sizes_, kept * sizes_.score_bytes(), limits));
    part_bytes_ = AlignUp(static_cast<uint64_t>(count_) * sizes_.score_bytes(),
                          kWorkspaceAlignment);
    for (first_ = 0; first_ < sizes_.matrices; first_ += count_) {
      RETURN_IF_ERROR(forward ? AddForward() : AddGradient());
    }
    return std::make_unique<KernelSequence>(std::move(steps_),
                                            kept * part_bytes_);
  }

 private:
  // Returns the bytes before the part in an operand with `numbers` numbers per
  // head.
  uint64_t Before(int64_t numbers) const {
    return static_cast<uint64_t>(first_ * numbers) * sizeof(float);
  }
  Place Input(size_t index, int64_t numbers) const {
    return Place::Input(index, Before(numbers));
  }
  Place Output(size_t index, int64_t numbers) const {
    return Place::Output(index, Before(numbers));
  }
  AttentionChunk chunk() const { return {first_, count_}; }
  double scale() const {
    return request_.node.get<AttentionAttributes>().scale;
  }

  struct Matrix {
    Place place;
    int64_t rows, columns;
  };

  absl::Status AddProduct(const Matrix& a, const Matrix& b, const Matrix& y,
                          const BatchMatMulAttributes& matmul) {
    // The product is a node in a graph of its own, since makers take requests.
    // The kernel must not refer to it.
    Graph graph;
    Node node;
    node.op = Op::kBatchMatMul;
    node.source = request_.node.source;
    node.attributes = matmul;
    const auto add = [&](const Matrix& matrix) {
      Value value;
      value.shape = Shape{count_, matrix.rows, matrix.columns};
      return graph.AddValue(std::move(value));
    };
    node.inputs = {add(a), add(b)};
    node.outputs = {add(y)};
    graph.AddNode(std::move(node));
    ASSIGN_OR_RETURN(auto kernel, products_({graph, graph.nodes()[0],
                                             std::vector<bool>(2, false),
                                             request_.options}));
    if (kernel == nullptr) {
      return absl::UnimplementedError("the library has no product for it");
    }
    steps_.push_back({std::move(kernel), {a.place, b.place}, {y.place}});
    return absl::OkStatus();
  }

  absl::Status AddForward() {
    const Sizes& s = sizes_;
    const Matrix q{Input(0, s.queries * s.depth), s.queries, s.depth};
    const Matrix k{Input(1, s.keys * s.depth), s.keys, s.depth};
    const Matrix v{Input(2, s.keys * s.width), s.keys, s.width};
    const Matrix y{Output(0, s.queries * s.width), s.queries, s.width};
    const Matrix scores{Place::Scratch(0), s.queries, s.keys};
    // y = softmax(scale q k^T + mask) v. The softmax replaces the scores.
    RETURN_IF_ERROR(AddProduct(q, k, scores, {false, true, scale()}));
    Places made{scores.place};
    if (request_.node.outputs.size() > 1) made.push_back(Output(1, s.queries));
    steps_.push_back({MakeAttentionShares(request_, chunk(), context_.stream),
                      Mask(3), std::move(made)});
    return AddProduct(scores, v, y, {});
  }

  // With p the softmax:
  //   dv = p^T dy, ds = p * (dy v^T - sum(dy * y)),
  //   dq = scale ds k, dk = scale ds^T q
  absl::Status AddGradient() {
    const Sizes& s = sizes_;
    const Matrix dy{Input(0, s.queries * s.width), s.queries, s.width};
    const Matrix q{Input(1, s.queries * s.depth), s.queries, s.depth};
    const Matrix k{Input(2, s.keys * s.depth), s.keys, s.depth};
    const Matrix v{Input(3, s.keys * s.width), s.keys, s.width};
    const Matrix dq{Output(0, s.queries * s.depth), s.queries, s.depth};
    const Matrix dk{Output(1, s.keys * s.depth), s.keys, s.depth};
    const Matrix dv{Output(2, s.keys * s.width), s.keys, s.width};
    const Matrix p{Place::Scratch(0), s.queries, s.keys};
    const Matrix ds{Place::Scratch(part_bytes_), s.queries, s.keys};
    RETURN_IF_ERROR(AddProduct(q, k, p, {false, true, scale()}));
    RETURN_IF_ERROR(AddProduct(dy, v, ds, {false, true}));
    Places read{dy.place, Input(4, s.queries * s.width), Input(5, s.queries)};
    for (const Place& mask : Mask(6)) read.push_back(mask);
    steps_.push_back({MakeAttentionSlopes(request_, chunk(), context_.stream),
                      std::move(read),
                      {p.place, ds.place}});
    RETURN_IF_ERROR(AddProduct(p, dy, dv, {true, false}));
    RETURN_IF_ERROR(AddProduct(ds, k, dq, {false, false, scale()}));
    return AddProduct(ds, q, dk, {true, false, scale()});
  }

  // Returns the place of the whole mask, if the node has one.
  Places Mask(size_t index) const {
    if (request_.node.inputs.size() <= index) return {};
    return {Place::Input(index)};
  }

  const CompileRequest& request_;
  const portable::PortableContext& context_;
  const ProductMaker& products_;
  const Sizes sizes_;
  int64_t first_ = 0, count_ = 0;  // heads of the current part
  uint64_t part_bytes_ = 0;        // of a part's scores
  std::vector<KernelSequence::Step> steps_;
};

}  // namespace

KernelOr MakeComposedAttention(const CompileRequest& request,
                               const portable::PortableContext& context,
                               const ProductMaker& products,
                               const ComposedAttentionLimits& limits) {
  if (InputOf(request, 0).dtype != DType::kFloat32) return nullptr;
  const Sizes s = SizesOf(request);
  const int64_t work =
      s.matrices * s.queries * s.keys * std::min(s.depth, s.width);
  if (work == 0 || work < limits.least_work) return nullptr;
  return Composer(request, context, products).Make(limits);
}

}  // namespace gpupool::engine::cuda
