#include "engine/backends/cuda/cudnn/cudnn_attention.h"

#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/backends/portable/product/attention_parts.h"
#include "engine/backends/strides.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::cuda {
namespace {

using portable::InputOf;
using portable::KernelOr;
using portable::OutputOf;
using Id = CudnnGraph::Id;

// Earlier versions need help with the gradient: sums must be cleared (until
// 9.6) and keys padded (until 9.16).
constexpr size_t kLeastVersion = 91600;
constexpr int64_t kMostDepth = 256;
constexpr int kRank = 4;
// Keys that the gradient processes at a time. With a mask, 64 keys in the last
// block make it add up infinities (pytorch issue 196678).
constexpr int64_t kKeyBlock = 128;
// Far below every score but finite, so that sums with it are numbers.
constexpr float kHidden = -std::numeric_limits<float>::max();

struct Sizes {
  int64_t batch, heads, queries, keys, depth, width;
};

Sizes SizesOf(const Shape& q, const Shape& v) {
  return {q[0], q[1], q[2], v[2], q[3], v[3]};
}

// The positions of q and the mask among a node's inputs.
struct Positions {
  size_t q, mask;
};

constexpr Positions kForward{0, 3};
constexpr Positions kGradient{1, 6};

bool HasMask(const CompileRequest& request, const Positions& at) {
  return request.node.inputs.size() > at.mask;
}

// Returns whether the operands are 16-bit and not empty.
bool Concerns(const CompileRequest& request, const Positions& at) {
  const Value& query = InputOf(request, at.q);
  const bool half =
      query.dtype == DType::kFloat16 || query.dtype == DType::kBFloat16;
  const Sizes s = SizesOf(query.shape, InputOf(request, at.q + 2).shape);
  return half && s.batch > 0 && s.heads > 0 && s.queries > 0 && s.keys > 0;
}

absl::Status CheckSizes(const Sizes& s, bool causal) {
  for (const int64_t depth : {s.depth, s.width}) {
    if (depth % 8 == 0 && depth >= 8 && depth <= kMostDepth) continue;
    return absl::UnimplementedError(
        absl::StrCat("cuDNN takes heads with a multiple of 8 numbers, at most ",
                     kMostDepth, "; these have ", depth));
  }
  if (!causal || s.queries == s.keys) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("causal attention of ", s.queries, " queries to ", s.keys,
                   " keys; cuDNN is asked for as many keys as queries"));
}

// Returns UNIMPLEMENTED for sizes for which the gradient's engines give wrong
// results.
absl::Status CheckGradient(const Sizes& s, bool masked) {
  if (s.queries == 1) {
    return absl::UnimplementedError(
        "cuDNN's gradients of one query may be no numbers");
  }
  if (masked && s.keys % kKeyBlock == kKeyBlock / 2) {
    return absl::UnimplementedError(absl::StrCat(
        "cuDNN's gradients with a mask may be no numbers where the keys leave ",
        kKeyBlock / 2, " when divided by ", kKeyBlock, "; there are ", s.keys,
        ". Pad them to a multiple of ", kKeyBlock));
  }
  return absl::OkStatus();
}

absl::Status Check(const CudnnLibrary& library, const CompileRequest& request,
                   const Positions& at) {
  if (library.functions().version() < kLeastVersion) {
    return absl::UnimplementedError(
        absl::StrCat("attention by cuDNN needs 9.16 or later; this is ",
                     CudnnVersion(library.functions())));
  }
  const Sizes s =
      SizesOf(InputOf(request, at.q).shape, InputOf(request, at.q + 2).shape);
  RETURN_IF_ERROR(
      CheckSizes(s, request.node.get<AttentionAttributes>().causal));
  if (request.node.op == Op::kAttention) return absl::OkStatus();
  return CheckGradient(s, HasMask(request, at));
}

// Adds a value of rank 4 with its last two axes exchanged. Copies no bytes.
Id AddTransposed(CudnnGraph& graph, const Value& value) {
  const Shape& s = value.shape;
  CudnnTensor tensor;
  tensor.type = CudnnTypeOf(value.dtype);
  tensor.dims = {s[0], s[1], s[3], s[2]};
  tensor.strides = {s[1] * s[2] * s[3], s[2] * s[3], 1, s[3]};
  return graph.Add(tensor);
}

// Adds a float32 tensor [B, H, T, 1] in memory.
Id AddRows(CudnnGraph& graph, const Sizes& s) {
  CudnnTensor tensor;
  tensor.dims = {s.batch, s.heads, s.queries, 1};
  tensor.strides = {s.heads * s.queries, s.queries, 1, 1};
  return graph.Add(tensor);
}

// Returns a mask with four axes. Axes along which it repeats have size 1.
CudnnTensor MaskTensor(const Value& mask) {
  CudnnTensor tensor;
  tensor.type = CudnnTypeOf(mask.dtype);
  tensor.dims.assign(static_cast<size_t>(kRank - mask.shape.rank()), 1);
  for (const int64_t size : mask.shape.dims()) tensor.dims.push_back(size);
  tensor.strides = MemoryStrides(mask.shape, Layout::kRowMajor);
  tensor.strides.insert(tensor.strides.begin(),
                        static_cast<size_t>(kRank - mask.shape.rank()),
                        mask.shape.elements());
  return tensor;
}

// Builds the parts that forward and gradient share.
class AttentionBuilder {
 public:
  AttentionBuilder(CudnnGraph& graph, const Sizes& s, CudnnKernel::Parts& parts)
      : graph_(graph), s_(s), parts_(parts) {}

  // Reserves scratch memory of the kernel.
  OperandPlace Reserve(uint64_t bytes) {
    const OperandPlace place = OperandPlace::Scratch(parts_.scratch_bytes);
    parts_.scratch_bytes += AlignUp(bytes, kWorkspaceAlignment);
    return place;
  }
  // Adds scores + the node's input `index`, in which -infinity is replaced.
  Id AddMask(Id scores, const CompileRequest& request, size_t index,
             portable::LaunchStream stream) {
    const Value& value = InputOf(request, index);
    const OperandPlace copy = Reserve(value.bytes());
    parts_.before.push_back({portable::MakeFiniteMask(value, stream),
                             {OperandPlace::Input(index)},
                             {copy}});
    const Id mask = graph_.Add(MaskTensor(value));
    parts_.tensors.push_back({mask, copy});
    return Apply(CUDNN_POINTWISE_ADD, scores, mask);
  }

  Id Scores(cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return graph_.AddVirtual(type, {s_.batch, s_.heads, s_.queries, s_.keys});
  }
  Id Rows() {
    return graph_.AddVirtual(CUDNN_DATA_FLOAT,
                             {s_.batch, s_.heads, s_.queries, 1});
  }
  Id Number(float value) {
    const Id id = graph_.AddNumber(kRank);
    parts_.numbers.push_back({id, value});
    return id;
  }
  Id Apply(cudnnPointwiseMode_t mode, Id x, Id b = 0) {
    const Id y = Scores();
    graph_.Pointwise(mode, x, b, y);
    return y;
  }
  // Gives keys after the query the score kHidden.
  Id HideLater(Id scores) {
    const Id rows = Scores(CUDNN_DATA_INT32);
    const Id columns = Scores(CUDNN_DATA_INT32);
    graph_.Pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, 0, rows, 2);
    graph_.Pointwise(CUDNN_POINTWISE_GEN_INDEX, scores, 0, columns, 3);
    const Id seen = Scores(CUDNN_DATA_BOOLEAN);
    graph_.Pointwise(CUDNN_POINTWISE_CMP_GE, rows, columns, seen);
    const Id y = Scores();
    graph_.Select(scores, Number(kHidden), seen, y);
    return y;
  }

 private:
  CudnnGraph& graph_;
  const Sizes& s_;
  CudnnKernel::Parts& parts_;
};

// Sets rows that see no key to what the op promises.
void RepairBlindRows(const CompileRequest& request,
                     portable::LaunchStream stream, CudnnKernel::Parts& parts) {
  CudnnKernel::Companion repair;
  repair.kernel = portable::MakeBlindRows(request, stream);
  repair.inputs = {OperandPlace::Input(kForward.mask)};
  for (size_t i = 0; i < request.node.outputs.size(); ++i) {
    repair.outputs.push_back(OperandPlace::Output(i));
  }
  parts.after.push_back(std::move(repair));
}

KernelOr MakeAttention(const CudnnLibrary* library,
                       const CompileRequest& request,
                       portable::LaunchStream stream) {
  const auto& attention = request.node.get<AttentionAttributes>();
  const Value& q = InputOf(request, 0);
  const Value& v = InputOf(request, 2);
  const Sizes s = SizesOf(q.shape, v.shape);
  CudnnGraph graph(&library->functions());
  CudnnKernel::Parts parts;
  AttentionBuilder build(graph, s, parts);
  const Id q_id = graph.AddValue(q);
  const Id k_id = AddTransposed(graph, InputOf(request, 1));
  const Id v_id = graph.AddValue(v);
  const Id y_id = graph.AddValue(OutputOf(request, 0));
  Id scores = build.Scores();
  graph.MatMul(q_id, k_id, scores);
  scores = build.Apply(CUDNN_POINTWISE_MUL, scores,
                       build.Number(static_cast<float>(attention.scale)));
  if (HasMask(request, kForward)) {
    scores = build.AddMask(scores, request, kForward.mask, stream);
    RepairBlindRows(request, stream, parts);
  }
  if (attention.causal) scores = build.HideLater(scores);

  // The softmax in the form that the library recognises: exp(x - max) / sum.
  const Id most = build.Rows();
  graph.Reduce(CUDNN_REDUCE_TENSOR_MAX, scores, most);
  const Id below = build.Apply(CUDNN_POINTWISE_SUB, scores, most);
  const Id powers = build.Apply(CUDNN_POINTWISE_EXP, below);
  const Id sum = build.Rows();
  graph.Reduce(CUDNN_REDUCE_TENSOR_ADD, powers, sum);
  if (attention.with_lse) {
    const Id log = build.Rows();
    graph.Pointwise(CUDNN_POINTWISE_LOG, sum, 0, log);
    const Id lse = AddRows(graph, s);
    graph.Pointwise(CUDNN_POINTWISE_ADD, most, log, lse);
    parts.tensors.push_back({lse, OperandPlace::Output(1)});
  }
  const Id shares = build.Scores(CudnnTypeOf(q.dtype));
  graph.Pointwise(CUDNN_POINTWISE_DIV, powers, sum, shares);
  graph.MatMul(shares, v_id, y_id);
  parts.tensors.push_back({q_id, OperandPlace::Input(0)});
  parts.tensors.push_back({k_id, OperandPlace::Input(1)});
  parts.tensors.push_back({v_id, OperandPlace::Input(2)});
  parts.tensors.push_back({y_id, OperandPlace::Output(0)});
  return CudnnKernel::Make(library, graph, std::move(parts),
                           PlanOptionsOf(request, q.dtype),
                           request.options.benchmark);
}

// With p the softmax and delta each row's sum of dy * y: dv = p' dy, ds = p *
// (dy v' - delta), dq = scale ds k, dk = scale ds' q (Dao et al. 2022, arXiv
// 2205.14135, appendix B.4). The library wants delta in memory.
//
// It also wants a float32 dq, to which blocks of keys are added in the order in
// which they finish. Without such a dq it keeps ds in its workspace, and dq is
// the same in every run.
class GradientBuilder {
 public:
  GradientBuilder(const CudnnLibrary* library, const CompileRequest& request,
                  portable::LaunchStream stream)
      : library_(library),
        request_(request),
        stream_(stream),
        sizes_(SizesOf(InputOf(request, 1).shape, InputOf(request, 3).shape)),
        graph_(&library->functions()),
        build_(graph_, sizes_, parts_) {}

  KernelOr Make() {
    AddOperands();
    const Id shares = AddShares();
    graph_.MatMul(Turned(shares), dy_, dv_);
    const Id slopes = AddSlopes(shares);
    graph_.MatMul(Turned(slopes), q_, dk_);
    AddQueryGrad(slopes);
    const DType type = InputOf(request_, 1).dtype;
    return CudnnKernel::Make(library_, graph_, std::move(parts_),
                             PlanOptionsOf(request_, type),
                             request_.options.benchmark);
  }

 private:
  // Adds inputs, outputs and tensors in scratch memory.
  void AddOperands() {
    const auto place = [&](Id id, OperandPlace at) {
      parts_.tensors.push_back({id, at});
      return id;
    };
    const Sizes& s = sizes_;
    dy_ = place(graph_.AddValue(InputOf(request_, 0)), OperandPlace::Input(0));
    q_ = place(graph_.AddValue(InputOf(request_, 1)), OperandPlace::Input(1));
    k_ = place(AddTransposed(graph_, InputOf(request_, 2)),
               OperandPlace::Input(2));
    v_ = place(AddTransposed(graph_, InputOf(request_, 3)),
               OperandPlace::Input(3));
    y_ = place(graph_.AddValue(InputOf(request_, 4)), OperandPlace::Input(4));
    lse_ = place(AddRows(graph_, s), Logarithms());
    dq_ =
        place(graph_.AddValue(OutputOf(request_, 0)), OperandPlace::Output(0));
    dk_ =
        place(graph_.AddValue(OutputOf(request_, 1)), OperandPlace::Output(1));
    dv_ =
        place(graph_.AddValue(OutputOf(request_, 2)), OperandPlace::Output(2));
    delta_ = place(AddRows(graph_, s), build_.Reserve(rows() * sizeof(float)));
    scale_ = build_.Number(
        static_cast<float>(request_.node.get<AttentionAttributes>().scale));
  }

  // Returns the place of the logarithms. With a mask some may be -infinity, so
  // it is a copy without these.
  OperandPlace Logarithms() {
    if (!HasMask(request_, kGradient)) return OperandPlace::Input(5);
    const OperandPlace copy = build_.Reserve(rows() * sizeof(float));
    parts_.before.push_back(
        {portable::MakeFiniteLogarithms(static_cast<int64_t>(rows()), stream_),
         {OperandPlace::Input(5)},
         {copy}});
    return copy;
  }

  // Computes delta, and the softmax of the forward pass from its logarithms.
  Id AddShares() {
    const Sizes& s = sizes_;
    const Id weighted = graph_.AddVirtual(
        CUDNN_DATA_FLOAT, {s.batch, s.heads, s.queries, s.width});
    graph_.Pointwise(CUDNN_POINTWISE_MUL, dy_, y_, weighted);
    graph_.Reduce(CUDNN_REDUCE_TENSOR_ADD, weighted, delta_);
    Id scores = build_.Scores();
    graph_.MatMul(q_, k_, scores);
    scores = build_.Apply(CUDNN_POINTWISE_MUL, scores, scale_);
    if (HasMask(request_, kGradient)) {
      scores = build_.AddMask(scores, request_, kGradient.mask, stream_);
    }
    scores = build_.Apply(CUDNN_POINTWISE_SUB, scores, lse_);
    if (request_.node.get<AttentionAttributes>().causal) {
      scores = build_.HideLater(scores);
    }
    return build_.Apply(CUDNN_POINTWISE_EXP, scores);
  }

  Id AddSlopes(Id shares) {
    Id slopes = build_.Scores();
    graph_.MatMul(dy_, v_, slopes);
    slopes = build_.Apply(CUDNN_POINTWISE_SUB, slopes, delta_);
    slopes = build_.Apply(CUDNN_POINTWISE_MUL, slopes, shares);
    return build_.Apply(CUDNN_POINTWISE_MUL, slopes, scale_);
  }

  void AddQueryGrad(Id slopes) {
    const Id k =
        graph_.Add(Packed(half(), sizes_.keys, CudnnTensor::Kind::kVirtual));
    graph_.Reshape(k_, k);
    // Without sums in memory, the blocks of keys are added in a fixed order.
    if (request_.options.deterministic) {
      graph_.MatMul(slopes, k, dq_);
      return;
    }
    const Id sums = graph_.Add(
        Packed(CUDNN_DATA_FLOAT, sizes_.queries, CudnnTensor::Kind::kMemory));
    parts_.tensors.push_back(
        {sums, build_.Reserve(rows() * static_cast<uint64_t>(sizes_.depth) *
                              sizeof(float))});
    graph_.MatMul(slopes, k, sums);
    graph_.Pointwise(CUDNN_POINTWISE_IDENTITY, sums, 0, dq_);
  }

  // Transposes [B, H, T, S] to [B, H, S, T] in the operands' type.
  Id Turned(Id x) {
    const Sizes& s = sizes_;
    CudnnTensor tensor;
    tensor.type = half();
    tensor.dims = {s.batch, s.heads, s.keys, s.queries};
    tensor.strides = {s.heads * s.queries * s.keys, s.queries * s.keys, 1,
                      s.keys};
    tensor.kind = CudnnTensor::Kind::kVirtual;
    const Id y = graph_.Add(tensor);
    graph_.Reshape(x, y);
    return y;
  }

  // Returns a row-major tensor [B, H, `rows`, D].
  CudnnTensor Packed(cudnnDataType_t type, int64_t rows,
                     CudnnTensor::Kind kind) const {
    const Sizes& s = sizes_;
    CudnnTensor tensor;
    tensor.type = type;
    tensor.dims = {s.batch, s.heads, rows, s.depth};
    tensor.strides = {s.heads * rows * s.depth, rows * s.depth, s.depth, 1};
    tensor.kind = kind;
    return tensor;
  }

  uint64_t rows() const {
    return static_cast<uint64_t>(sizes_.batch * sizes_.heads * sizes_.queries);
  }

  cudnnDataType_t half() const {
    return CudnnTypeOf(InputOf(request_, 1).dtype);
  }

  const CudnnLibrary* const library_;
  const CompileRequest& request_;
  const portable::LaunchStream stream_;
  const Sizes sizes_;
  CudnnGraph graph_;
  CudnnKernel::Parts parts_;
  AttentionBuilder build_;
  // k_ and v_ are transposed.
  Id dy_ = 0, q_ = 0, k_ = 0, v_ = 0, y_ = 0, lse_ = 0, scale_ = 0;
  Id dq_ = 0, dk_ = 0, dv_ = 0, delta_ = 0;
};

}  // namespace

KernelOr MakeCudnnAttention(const CudnnLibrary* library,
                            const CompileRequest& request,
                            const portable::PortableContext& context) {
  const bool forward = request.node.op == Op::kAttention;
  const Positions& at = forward ? kForward : kGradient;
  if (!Concerns(request, at)) return nullptr;
  RETURN_IF_ERROR(Check(*library, request, at));
  if (forward) return MakeAttention(library, request, context.stream);
  return GradientBuilder(library, request, context.stream).Make();
}

}  // namespace gpupool::engine::cuda
