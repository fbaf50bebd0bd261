// Attention and its gradient, a block of queries at a time. The scores of a
// block stay in the cache between the products around them and are never
// stored. The gradient recomputes them from the logarithms of the sums (Dao et
// al. 2022, arXiv 2205.14135).
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/backends/cpu/product/attention.cc"
#include "hwy/foreach_target.h"  // must precede highway.h
//
#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "engine/backends/cpu/kernel/kernels.h"
#include "engine/backends/cpu/kernel/parallel.h"
#include "engine/backends/cpu/kernel/simd-inl.h"
#include "engine/backends/cpu/product/small_gemm.h"
#include "engine/backends/function_kernel.h"
#include "engine/base/align.h"
#include "engine/graph/broadcast.h"

HWY_BEFORE_NAMESPACE();
namespace gpupool::engine {
namespace HWY_NAMESPACE {

// Computes x[i] += mask[i].
void AddMaskRow(float* x, const float* mask, int64_t count) {
  const FloatTag d;
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    hn::StoreU(hn::Add(hn::LoadU(d, x + i), hn::LoadU(d, mask + i)), d, x + i);
  }
  for (; i < count; ++i) x[i] += mask[i];
}

// Computes x[i] = exp(x[i] - shift) and returns the sum.
float ExpRow(float* x, float shift, int64_t count) {
  const FloatTag d;
  const FloatVector centre = hn::Set(d, shift);
  FloatVector lanes = hn::Zero(d);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector e = ExpOf(hn::Sub(hn::LoadU(d, x + i), centre));
    lanes = hn::Add(lanes, e);
    hn::StoreU(e, d, x + i);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  if (i < count) {
    // The missing lanes are -infinity and so add exp(-infinity) = 0.
    const FloatVector e =
        ExpOf(hn::Sub(LoadPart(x + i, count - i, -HUGE_VALF), centre));
    sum += hn::GetLane(hn::SumOfLanes(d, e));
    StorePart(e, x + i, count - i);
  }
  return sum;
}

float MaxRow(const float* x, int64_t count) { return MaxOf(x, count); }

void ScaleRow(float* x, float factor, int64_t count) {
  const FloatTag d;
  const FloatVector scale = hn::Set(d, factor);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    hn::StoreU(hn::Mul(hn::LoadU(d, x + i), scale), d, x + i);
  }
  for (; i < count; ++i) x[i] *= factor;
}

float DotRow(const float* a, const float* b, int64_t count) {
  const FloatTag d;
  FloatVector lanes = hn::Zero(d);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    lanes = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), lanes);
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, lanes));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

// Computes dp[i] = p[i] * (dp[i] - delta).
void ScoreGradRow(const float* p, float delta, float* dp, int64_t count) {
  const FloatTag d;
  const FloatVector centre = hn::Set(d, delta);
  int64_t i = 0;
  for (; i + FloatLanes() <= count; i += FloatLanes()) {
    const FloatVector rest = hn::Sub(hn::LoadU(d, dp + i), centre);
    hn::StoreU(hn::Mul(hn::LoadU(d, p + i), rest), d, dp + i);
  }
  for (; i < count; ++i) dp[i] = p[i] * (dp[i] - delta);
}

}  // namespace HWY_NAMESPACE
}  // namespace gpupool::engine
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gpupool::engine {
namespace {

HWY_EXPORT(AddMaskRow);
HWY_EXPORT(ExpRow);
HWY_EXPORT(MaxRow);
HWY_EXPORT(ScaleRow);
HWY_EXPORT(DotRow);
HWY_EXPORT(ScoreGradRow);

constexpr int64_t kScoresPerBlock = 32 << 10;  // numbers: half of a usual L2
constexpr int64_t kLeastQueries = 16;
constexpr int64_t kMostQueries = 128;
// The smaller a block, the fewer scores are computed that no query sees.
constexpr int64_t kMostCausalQueries = 32;

// The positions of q and the mask among a node's inputs. k and v follow q.
struct Positions {
  size_t q, mask;
};

struct Heads {
  Positions positions;
  int64_t batches = 1;  // batch times heads
  int64_t heads = 1;
  int64_t queries = 1, keys = 1, depth = 1, width = 1;
  float scale = 1;
  bool causal = false;
  bool masked = false;
  std::vector<int64_t> mask_strides;  // of batch, head, query, key
  int64_t block = 1;                  // queries
  int threads = 1;

  Heads(const CompileRequest& request, const CpuContext& context,
        const Positions& at);

  int64_t blocks() const { return (queries + block - 1) / block; }
  // Returns the number of keys that query t sees.
  int64_t Seen(int64_t t) const {
    return causal ? std::clamp<int64_t>(t + keys - queries + 1, 0, keys) : keys;
  }
  int64_t MaskAt(int64_t batch, int64_t t) const {
    return batch / heads * mask_strides[0] + batch % heads * mask_strides[1] +
           t * mask_strides[2];
  }
};

Heads::Heads(const CompileRequest& request, const CpuContext& context,
             const Positions& at)
    : positions(at) {
  const Shape& q = InputOf(request, at.q).shape;
  const Shape& v = InputOf(request, at.q + 2).shape;
  const auto& attributes = request.node.get<AttentionAttributes>();
  heads = q[1];
  batches = q[0] * q[1];
  queries = q[2];
  keys = v[2];
  depth = q[3];
  width = v[3];
  scale = static_cast<float>(attributes.scale);
  causal = attributes.causal;
  masked = request.node.inputs.size() > at.mask;
  if (masked) {
    mask_strides = BroadcastStrides(InputOf(request, at.mask).shape,
                                    {q[0], heads, queries, keys});
  }
  block = std::clamp(kScoresPerBlock / keys, kLeastQueries, kMostQueries);
  if (causal) block = std::min(block, kMostCausalQueries);
  block = std::min(block, queries);
  threads = context.ThreadsForFlops(NodeFlops(request.graph, request.node));
}

// decay_t, since with static dispatch Highway's names are functions, not
// pointers.
struct RowLoops {
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(AddMaskRow))> add_mask =
      HWY_DYNAMIC_DISPATCH(AddMaskRow);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(ExpRow))> exp =
      HWY_DYNAMIC_DISPATCH(ExpRow);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(MaxRow))> max =
      HWY_DYNAMIC_DISPATCH(MaxRow);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(ScaleRow))> scale =
      HWY_DYNAMIC_DISPATCH(ScaleRow);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(DotRow))> dot =
      HWY_DYNAMIC_DISPATCH(DotRow);
  std::decay_t<decltype(HWY_DYNAMIC_DISPATCH(ScoreGradRow))> score_grad =
      HWY_DYNAMIC_DISPATCH(ScoreGradRow);
};

// Queries [first, first + rows) of one head. They see at most the first `seen`
// keys. `scores` has `rows` rows of `seen` numbers.
struct Block {
  int64_t batch, first, rows, seen;
};

Block BlockAt(const Heads& h, int64_t batch, int64_t index) {
  Block block{batch, index * h.block, 0, 0};
  block.rows = std::min(h.block, h.queries - block.first);
  block.seen = h.Seen(block.first + block.rows - 1);
  return block;
}

// One run of a kernel, a block at a time.
class BlockRun {
 public:
  BlockRun(const Heads& heads, const RowLoops& loops, const KernelArguments& at)
      : h_(heads), loops_(loops), at_(at) {}

  // Computes y and, if wanted, the logarithms of the sums. `scores` is room for
  // the block's scores.
  void Forward(const Block& b, bool with_lse, float* scores) const;
  // Computes dq and adds to dk and dv. `p` and `ds` are room for the block's
  // scores each.
  void Gradient(const Block& b, float* p, float* ds) const;

 private:
  // Computes scale q k^T + mask of the block, also for keys that a query does
  // not see.
  void Scores(const Block& b, float* scores) const;
  // Turns scores into probabilities. Returns the logarithm of the sum of
  // exponentials.
  float SoftmaxRow(float* x, int64_t seen, int64_t count) const;

  const Heads& h_;
  const RowLoops& loops_;
  const KernelArguments& at_;
};

void BlockRun::Scores(const Block& b, float* scores) const {
  const Gemm gemm{false,    true,     b.rows, b.seen,   h_.depth,
                  h_.depth, h_.depth, b.seen, h_.scale, 0};
  const float* q = at_.in(h_.positions.q);
  const float* k = at_.in(h_.positions.q + 1);
  gemm.Run(q + (b.batch * h_.queries + b.first) * h_.depth,
           k + b.batch * h_.keys * h_.depth, scores);
  if (!h_.masked) return;
  const float* mask = at_.in(h_.positions.mask);
  for (int64_t r = 0; r < b.rows; ++r) {
    const float* row = mask + h_.MaskAt(b.batch, b.first + r);
    float* x = scores + r * b.seen;
    if (h_.mask_strides[3] == 1) {
      loops_.add_mask(x, row, b.seen);
    } else {
      for (int64_t i = 0; i < b.seen; ++i) x[i] += *row;
    }
  }
}

float BlockRun::SoftmaxRow(float* x, int64_t seen, int64_t count) const {
  const float greatest = seen > 0 ? loops_.max(x, seen) : -HUGE_VALF;
  // The query sees no key, or the mask hides all. x - greatest would be NaN.
  // The greatest of NaN alone is -infinity as well.
  if (greatest == -HUGE_VALF) {
    const bool nan =
        std::any_of(x, x + seen, [](float score) { return std::isnan(score); });
    std::fill(x, x + count, nan ? NAN : 0.0f);
    return nan ? NAN : -HUGE_VALF;
  }
  const float sum = loops_.exp(x, greatest, seen);
  loops_.scale(x, 1.0f / sum, seen);
  std::fill(x + seen, x + count, 0.0f);
  return greatest + std::log(sum);
}

void BlockRun::Forward(const Block& b, bool with_lse, float* scores) const {
  const int64_t query = b.batch * h_.queries + b.first;
  float* y = at_.out(0) + query * h_.width;
  // With the causal rule and more queries than keys, the first queries see no
  // key.
  if (b.seen == 0) {
    std::fill(y, y + b.rows * h_.width, 0.0f);
    if (with_lse) {
      std::fill(at_.out(1) + query, at_.out(1) + query + b.rows, -HUGE_VALF);
    }
    return;
  }
  Scores(b, scores);
  for (int64_t r = 0; r < b.rows; ++r) {
    const float lse =
        SoftmaxRow(scores + r * b.seen, h_.Seen(b.first + r), b.seen);
    if (with_lse) at_.out(1)[query + r] = lse;
  }
  const Gemm gemm{false,  false,    b.rows,   h_.width, b.seen,
                  b.seen, h_.width, h_.width, 1,        0};
  gemm.Run(scores, at_.in(2) + b.batch * h_.keys * h_.width, y);
}

// Inputs of the gradient: dy, q, k, v, y, lse, [mask]. With p the softmax:
//   dv = p^T dy, ds = p * (dy v^T - sum(dy * y)),
//   dq = scale ds k, dk = scale ds^T q
void BlockRun::Gradient(const Block& b, float* p, float* ds) const {
  const int64_t query = b.batch * h_.queries + b.first;
  const int64_t key = b.batch * h_.keys;
  const float* dy = at_.in(0) + query * h_.width;
  const float* y = at_.in(4) + query * h_.width;
  const float* q = at_.in(1) + query * h_.depth;
  const float* k = at_.in(2) + key * h_.depth;
  float* dq = at_.out(0) + query * h_.depth;
  if (b.seen == 0) {
    std::fill(dq, dq + b.rows * h_.depth, 0.0f);
    return;
  }
  Scores(b, p);
  const Gemm score_grad{false,    true,     b.rows, b.seen, h_.width,
                        h_.width, h_.width, b.seen, 1,      0};
  score_grad.Run(dy, at_.in(3) + key * h_.width, ds);
  for (int64_t r = 0; r < b.rows; ++r) {
    float* row = p + r * b.seen;
    const float lse = at_.in(5)[query + r];
    // With lse = -infinity no key was seen, and exp(x - lse) would be infinite.
    const int64_t seen = lse == -HUGE_VALF ? 0 : h_.Seen(b.first + r);
    loops_.exp(row, lse, seen);
    std::fill(row + seen, row + b.seen, 0.0f);
    const float delta =
        loops_.dot(dy + r * h_.width, y + r * h_.width, h_.width);
    loops_.score_grad(row, delta, ds + r * b.seen, b.seen);
  }
  // dv and dk are sums over all queries of a head, so each block adds to them.
  const Gemm dv{true,   false,    b.seen,   h_.width, b.rows,
                b.seen, h_.width, h_.width, 1,        1};
  dv.Run(p, dy, at_.out(2) + key * h_.width);
  const Gemm to_q{false,  false,    b.rows,   h_.depth, b.seen,
                  b.seen, h_.depth, h_.depth, h_.scale, 0};
  to_q.Run(ds, k, dq);
  const Gemm to_k{true,   false,    b.seen,   h_.depth, b.rows,
                  b.seen, h_.depth, h_.depth, h_.scale, 1};
  to_k.Run(ds, q, at_.out(1) + key * h_.depth);
}

uint64_t BlockBytes(const Heads& h) {
  return AlignUp(static_cast<uint64_t>(h.block * h.keys) * sizeof(float));
}

bool AllFloat32(const CompileRequest& request) {
  return std::all_of(
      request.node.inputs.begin(), request.node.inputs.end(), [&](ValueId id) {
        const Value& value = request.graph.value(id);
        return value.dtype == DType::kFloat32 && value.shape.elements() > 0;
      });
}

}  // namespace

KernelOr MakeAttention(const CompileRequest& request,
                       const CpuContext& context) {
  if (!AllFloat32(request)) return nullptr;
  const Heads h(request, context, {0, 3});
  const bool with_lse = request.node.outputs.size() > 1;
  const uint64_t bytes = BlockBytes(h);
  const RowLoops loops;
  const auto run = [=](const KernelArguments& at) {
    UseOneThreadForGemm();
    const int64_t blocks = h.blocks();
    ParallelParts(
        h.threads, h.batches * blocks, 1,
        [&](int part, int64_t begin, int64_t end) {
          auto* scores = reinterpret_cast<float*>(
              at.workspace<std::byte>() + static_cast<uint64_t>(part) * bytes);
          const BlockRun block_run(h, loops, at);
          for (int64_t i = begin; i < end; ++i) {
            block_run.Forward(BlockAt(h, i / blocks, i % blocks), with_lse,
                              scores);
          }
        });
  };
  return MakeKernel(run, static_cast<uint64_t>(h.threads) * bytes);
}

KernelOr MakeAttentionGrad(const CompileRequest& request,
                           const CpuContext& context) {
  if (!AllFloat32(request)) return nullptr;
  const Heads h(request, context, {1, 6});
  const uint64_t bytes = BlockBytes(h);
  const RowLoops loops;
  const auto run = [=](const KernelArguments& at) {
    UseOneThreadForGemm();
    // A head belongs to one thread, since all of its blocks add to the same dk
    // and dv.
    ParallelParts(h.threads, h.batches, 1,
                  [&](int part, int64_t begin, int64_t end) {
                    std::byte* room = at.workspace<std::byte>() +
                                      2 * static_cast<uint64_t>(part) * bytes;
                    auto* p = reinterpret_cast<float*>(room);
                    auto* ds = reinterpret_cast<float*>(room + bytes);
                    const BlockRun block_run(h, loops, at);
                    for (int64_t batch = begin; batch < end; ++batch) {
                      float* dk = at.out(1) + batch * h.keys * h.depth;
                      float* dv = at.out(2) + batch * h.keys * h.width;
                      std::fill(dk, dk + h.keys * h.depth, 0.0f);
                      std::fill(dv, dv + h.keys * h.width, 0.0f);
                      for (int64_t i = 0; i < h.blocks(); ++i) {
                        block_run.Gradient(BlockAt(h, batch, i), p, ds);
                      }
                    }
                  });
  };
  return MakeKernel(run, 2 * static_cast<uint64_t>(h.threads) * bytes);
}

}  // namespace gpupool::engine
#endif  // HWY_ONCE
