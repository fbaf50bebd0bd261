#include "tests/engine/testing/random_graph.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/autodiff/gradient.h"
#include "engine/autodiff/step_tail.h"
#include "engine/base/check.h"
#include "engine/base/philox.h"
#include "engine/graph/builder.h"
#include "engine/passes/raise/raise.h"

namespace gpupool::engine::testing {
namespace {

constexpr int kMaxBlocks = 7;

class Generator {
 public:
  Generator(uint64_t seed, bool training)
      : philox_(seed), training_(training), builder_(&graph_) {}

  Graph Make() {
    const int64_t batch = Pick(1, 3);
    switch (Pick(0, 2)) {
      case 0:
        x_ = Input("input", {batch, Pick(1, 3), Pick(4, 6), Pick(4, 6)});
        break;
      case 1:
        x_ = Input("input", {batch, Pick(2, 4), 2 * Pick(1, 3)});
        break;
      default:
        x_ = Input("input", {batch + 1, Pick(2, 6)});
    }
    // A weight, so that there always is something to train.
    x_ = Binary(BinaryFunction::kMultiply, x_,
                Weight({shape()[shape().rank() - 1]}));
    const int64_t blocks = Pick(1, kMaxBlocks);
    for (int64_t i = 0; i < blocks; ++i) {
      builder_.SetSource(absl::StrCat("block", i), static_cast<int>(i));
      AddBlock();
    }
    builder_.SetSource("end", static_cast<int>(blocks));
    return training_ ? Train() : Infer();
  }

 private:
  static TensorType F(const Shape& shape) { return {DType::kFloat32, shape}; }

  int64_t Pick(int64_t low, int64_t high) {
    return low + static_cast<int64_t>(
                     philox_.NextBelow(static_cast<uint64_t>(high - low + 1)));
  }
  bool Toss() { return Pick(0, 1) == 0; }

  const Shape& shape() const { return builder_.shape(x_); }
  int rank() const { return shape().rank(); }
  int64_t last() const { return shape()[rank() - 1]; }

  ValueId Input(const std::string& name, const Shape& shape) {
    return *builder_.Input(name, F(shape));
  }
  ValueId Weight(const Shape& shape, const std::string& suffix = "") {
    const ValueId id = *builder_.Persistent(
        absl::StrCat("w", weights_.size(), suffix), F(shape),
        suffix.empty() ? MemoryClass::kWeight : MemoryClass::kState);
    if (suffix.empty()) weights_.push_back(id);
    return id;
  }
  ValueIds EmitAll(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    auto outputs = builder_.Emit(op, inputs, std::move(attributes));
    if (!outputs.ok()) {
      fprintf(stderr, "%s\n", std::string(outputs.status().message()).c_str());
    }
    GPUPOOL_CHECK(outputs.ok());
    return *outputs;
  }
  ValueId Emit(Op op, const ValueIds& inputs, Attributes attributes = {}) {
    return EmitAll(op, inputs, std::move(attributes))[0];
  }
  ValueId Number(double x) { return builder_.Constant(F({}), {x}); }
  ValueId Unary(UnaryFunction f, ValueId x, double alpha = 0, double beta = 0) {
    return Emit(Op::kUnary, {x}, UnaryAttributes{f, alpha, beta});
  }
  ValueId Binary(BinaryFunction f, ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{f});
  }
  ValueId Binary(BinaryFunction f, ValueId a, double b) {
    return Binary(f, a, Number(b));
  }
  ValueId Reshape(ValueId x, const Shape& to) {
    return Emit(Op::kReshape, {x}, ShapeAttributes{to});
  }
  ValueId Transpose(ValueId x, std::vector<int> permutation) {
    return Emit(Op::kTranspose, {x}, TransposeAttributes{permutation});
  }
  ValueId Mean(ValueId x, std::vector<int> axes, bool keep) {
    return Emit(Op::kReduce, {x},
                ReduceAttributes{ReduceFunction::kMean, std::move(axes), keep});
  }

  void AddBlock() {
    switch (Pick(0, 9)) {
      case 0:
        return AddUnary();
      case 1:
        return AddDecomposedActivation();
      case 2:
        return AddBroadcasting();
      case 3:
        return AddNorm();
      case 4:
        return AddMovement();
      case 5:
        return AddSelection();
      default:
        break;
    }
    if (rank() == 4) return AddImageBlock();
    if (rank() == 3) return AddSequenceBlock();
    AddMatrixBlock();
  }

  void AddUnary() {
    const UnaryFunction functions[] = {
        UnaryFunction::kAbs,       UnaryFunction::kNegate,
        UnaryFunction::kSin,       UnaryFunction::kErf,
        UnaryFunction::kSoftplus,  UnaryFunction::kSilu,
        UnaryFunction::kHardSwish, UnaryFunction::kSoftsign};
    switch (Pick(0, 7)) {
      case 0:
        x_ = Unary(UnaryFunction::kClip, x_, -0.5, 0.75);
        return;
      case 1:
        x_ = Unary(UnaryFunction::kLeakyRelu, x_, 0.1);
        return;
      case 2:
        x_ = Emit(Op::kRelu, {x_});
        return;
      case 3:
        x_ = Emit(Toss() ? Op::kSigmoid : Op::kTanh, {x_});
        return;
      case 4:
        x_ = Emit(Op::kGelu, {x_}, GeluAttributes{Toss()});
        return;
      default:
        x_ = Unary(functions[Pick(0, 7)], x_);
    }
  }

  void AddDecomposedActivation() {
    const auto multiply = BinaryFunction::kMultiply;
    const auto add = BinaryFunction::kAdd;
    ValueId y;
    switch (Pick(0, 4)) {
      case 0:
        y = Unary(UnaryFunction::kErf,
                  Binary(BinaryFunction::kDivide, x_, std::sqrt(2.0)));
        y = Binary(multiply, x_, Binary(add, y, 1));
        x_ = Binary(multiply, y, 0.5);
        return;
      case 1:
        y = Binary(multiply, Binary(BinaryFunction::kPower, x_, 3), 0.044715);
        y = Binary(multiply, Binary(add, x_, y), std::sqrt(2 / M_PI));
        y = Binary(add, Number(1), Emit(Op::kTanh, {y}));
        x_ = Binary(multiply, Binary(multiply, Number(0.5), x_), y);
        return;
      case 2:
        x_ = Binary(multiply, x_, Emit(Op::kSigmoid, {x_}));
        return;
      case 3:
        y = Unary(UnaryFunction::kClip, Binary(add, x_, 3), 0, 6);
        x_ = Binary(BinaryFunction::kDivide, Binary(multiply, x_, y), 6);
        return;
      default:
        x_ = Binary(BinaryFunction::kMaximum, x_, 0);
    }
  }

  void AddBroadcasting() {
    const int axis = static_cast<int>(Pick(0, rank() - 1));
    switch (Pick(0, 4)) {
      case 0:
        x_ = Binary(BinaryFunction::kSubtract, x_, Mean(x_, {axis}, true));
        return;
      case 1: {
        std::vector<int64_t> dims(shape().dims().begin(), shape().dims().end());
        dims[0] = 1;
        x_ = Binary(Toss() ? BinaryFunction::kAdd : BinaryFunction::kMultiply,
                    x_, Weight(*Shape::Create(dims)));
        return;
      }
      case 2: {
        const ValueId sum =
            Emit(Op::kReduce, {x_},
                 ReduceAttributes{ReduceFunction::kMax, {axis}, true});
        const ValueId wide =
            Emit(Op::kBroadcast, {sum}, ShapeAttributes{shape()});
        x_ = Binary(BinaryFunction::kMaximum, x_,
                    Binary(BinaryFunction::kMultiply, wide, 0.5));
        return;
      }
      case 3:
        x_ = Binary(BinaryFunction::kDivide, x_,
                    Binary(BinaryFunction::kAdd,
                           Binary(BinaryFunction::kPower, x_, 2), 1));
        return;
      default:
        x_ = Emit(Op::kAdd, {x_, Unary(UnaryFunction::kCos, x_)});
    }
  }

  void AddNorm() {
    if (Toss()) {
      const ValueId mean = Mean(x_, {rank() - 1}, true);
      const ValueId centred = Binary(BinaryFunction::kSubtract, x_, mean);
      const ValueId squares = Binary(BinaryFunction::kPower, centred, 2);
      const ValueId variance = Mean(squares, {rank() - 1}, true);
      const ValueId root = Unary(UnaryFunction::kSqrt,
                                 Binary(BinaryFunction::kAdd, variance, 1e-2));
      const ValueId y = Binary(BinaryFunction::kDivide, centred, root);
      const int64_t columns = last();
      x_ = Binary(BinaryFunction::kMultiply, y, Weight({columns}));
      if (Toss()) x_ = Binary(BinaryFunction::kAdd, x_, Weight({columns}));
      return;
    }
    if (Toss()) {
      x_ = Emit(Toss() ? Op::kSoftmax : Op::kLogSoftmax, {x_});
      return;
    }
    const int64_t columns = last();
    x_ = EmitAll(Op::kLayerNorm, {x_, Weight({columns}), Weight({columns})},
                 NormAttributes{1e-2, training_})[0];
  }

  void AddMovement() {
    switch (Pick(0, 5)) {
      case 0: {  // there and back
        std::vector<int> swap;
        for (int i = 0; i < rank(); ++i) swap.push_back(rank() - 1 - i);
        x_ = Transpose(x_, swap);
        if (Toss()) x_ = Emit(Op::kRelu, {x_});
        x_ = Transpose(x_, swap);
        return;
      }
      case 1: {
        const Shape before = shape();
        x_ = Reshape(x_, {before.elements()});
        x_ = Emit(Op::kTanh, {x_});
        x_ = Reshape(x_, before);
        return;
      }
      case 2: {
        SliceAttributes slice;
        for (const int64_t size : shape().dims()) {
          const int64_t kept = Pick(1, size);
          slice.starts.push_back(size - kept);
          slice.steps.push_back(1);
          slice.sizes.push_back(kept);
        }
        x_ = Emit(Op::kSlice, {x_}, slice);
        return;
      }
      case 3: {
        PadAttributes pad;
        for (int i = 0; i < rank(); ++i) {
          pad.before.push_back(Pick(0, 1) * (i == rank() - 1));
          pad.after.push_back(Pick(0, 1) * (i == rank() - 1));
        }
        x_ = Emit(Op::kPad, {x_}, pad);
        return;
      }
      case 4:
        x_ = Emit(Op::kConcat, {x_, Unary(UnaryFunction::kSin, x_)},
                  AxisAttributes{rank() - 1});
        return;
      default: {
        const ValueId indices = builder_.Constant(
            {DType::kInt64, {2}}, {0, static_cast<double>(last() - 1)});
        x_ = Emit(Op::kGather, {x_, indices}, AxisAttributes{rank() - 1});
      }
    }
  }

  void AddSelection() {
    switch (Pick(0, 3)) {
      case 0: {
        const ValueId positive = Binary(BinaryFunction::kGreater, x_, 0.1);
        x_ = Emit(Op::kWhere,
                  {positive, x_, Binary(BinaryFunction::kMultiply, x_, 0.2)});
        return;
      }
      case 1: {
        const ValueId wide =
            Emit(Op::kCast, {x_}, CastAttributes{DType::kFloat64});
        x_ = Emit(Op::kCast, {wide}, CastAttributes{DType::kFloat32});
        return;
      }
      case 2:
        x_ = Emit(Op::kCumSum, {x_}, CumSumAttributes{rank() - 1});
        return;
      default: {
        // Numbers that are known before the first run.
        const ValueId w = Unary(UnaryFunction::kSin, Weight({last()}));
        x_ = Binary(BinaryFunction::kAdd, x_, w);
      }
    }
  }

  void AddConv(int64_t filters, int64_t kernel) {
    const int64_t channels = shape()[1];
    Conv2dAttributes conv;
    conv.padding = Padding(kernel / 2, kernel / 2);
    x_ = Emit(Op::kConv2d, {x_, Weight({filters, channels, kernel, kernel})},
              conv);
  }

  void AddImageBlock() {
    const ValueId before = x_;
    const int64_t channels = shape()[1];
    switch (Pick(0, 6)) {
      case 0:  // scale and shift by channel
        AddConv(channels, 1);
        x_ = Binary(BinaryFunction::kMultiply, x_, Weight({1, channels, 1, 1}));
        x_ = Binary(BinaryFunction::kAdd, x_, Weight({channels, 1, 1}));
        return;
      case 1:
        AddConv(Pick(1, 4), shape()[2] > 2 && shape()[3] > 2 ? 3 : 1);
        return AddBatchNorm();
      case 2:
        AddConv(channels, 1);
        x_ = Emit(Op::kAdd, {x_, before});
        x_ = Emit(Op::kRelu, {x_});
        return;
      case 3: {  // squeeze and excite
        ValueId y = Emit(Op::kGlobalAvgPool, {x_});
        y = Emit(Op::kMatMul, {y, Weight({channels, channels})},
                 MatMulAttributes{});
        y = Emit(Op::kSigmoid, {y});
        y = Reshape(y, {shape()[0], channels, 1, 1});
        x_ = Binary(BinaryFunction::kMultiply, x_, y);
        return;
      }
      case 4: {
        Conv2dAttributes conv;
        conv.stride = {2, 2};
        const Shape result{shape()[0], 2, 2 * shape()[2], 2 * shape()[3]};
        x_ = Emit(Op::kConv2dInputGrad, {x_, Weight({channels, 2, 2, 2})},
                  Conv2dGradAttributes{.conv = conv, .result = result});
        return AddBatchNorm();
      }
      case 5:
        x_ = Reshape(x_, {shape()[0], channels, shape()[2] * shape()[3]});
        return;
      default:
        x_ = Reshape(x_, {shape()[0], shape().elements() / shape()[0]});
    }
  }

  void AddBatchNorm() {
    const Shape row{shape()[1]};
    if (training_ && shape().elements() / shape()[1] >= 2) {
      x_ = EmitAll(Op::kBatchNormTraining, {x_, Weight(row), Weight(row)},
                   NormAttributes{1e-2})[0];
    } else if (!training_) {
      x_ = Emit(Op::kBatchNormInference,
                {x_, Weight(row), Weight(row), Weight(row, ".running_mean"),
                 Weight(row, ".running_var")},
                NormAttributes{1e-2});
    }
    if (Toss()) x_ = Emit(Op::kRelu, {x_});
  }

  void AddSequenceBlock() {
    switch (Pick(0, 3)) {
      case 0: {
        const int64_t columns = 2 * Pick(1, 3);
        const ValueId before = x_;
        const bool residual = columns == last();
        x_ = Emit(Op::kBatchMatMul, {x_, Weight({last(), columns})},
                  BatchMatMulAttributes{});
        x_ = Binary(BinaryFunction::kAdd, x_, Weight({columns}));
        if (Toss()) AddDecomposedActivation();
        if (residual) x_ = Emit(Op::kAdd, {before, x_});
        return;
      }
      case 1:
        x_ = Mean(x_, {1}, false);
        return;
      default:
        AddAttention();
    }
  }

  ValueId Heads(int64_t heads) {
    const Shape before = shape();
    ValueId y = Emit(Op::kBatchMatMul, {x_, Weight({last(), last()})},
                     BatchMatMulAttributes{});
    return Reshape(y, {before[0], before[1], heads, before[2] / heads});
  }

  void AddAttention() {
    const Shape before = shape();
    const int64_t heads = last() % 2 == 0 ? 2 : 1;
    const double scale = 1 / std::sqrt(static_cast<double>(last() / heads));
    ValueId q = Transpose(Heads(heads), {0, 2, 1, 3});
    const bool scale_operands = Toss();
    if (scale_operands) {
      q = Binary(BinaryFunction::kMultiply, q, scale);
    }
    const ValueId k = Transpose(Heads(heads), {0, 2, 3, 1});
    const ValueId v = Transpose(Heads(heads), {0, 2, 1, 3});
    ValueId scores = Emit(Op::kBatchMatMul, {q, k}, BatchMatMulAttributes{});
    if (!scale_operands) {
      scores = Binary(BinaryFunction::kDivide, scores, 1 / scale);
    }
    const int64_t steps = before[1];
    std::vector<double> future;
    for (int64_t i = 0; i < steps * steps; ++i) {
      future.push_back(i % steps > i / steps ? 1 : 0);
    }
    switch (Pick(0, 2)) {
      case 0: {
        for (double& x : future) x *= -1e30;
        scores = Binary(BinaryFunction::kAdd, scores,
                        builder_.Constant(F({steps, steps}), future));
        break;
      }
      case 1: {
        future[1 % future.size()] = 0;
        const ValueId hidden =
            builder_.Constant({DType::kBool, {1, 1, steps, steps}}, future);
        scores = Emit(Op::kWhere, {hidden, Number(-1e30), scores});
        break;
      }
      default:
        break;
    }
    const ValueId weights = Emit(Op::kSoftmax, {scores});
    ValueId y = Emit(Op::kBatchMatMul, {weights, v}, BatchMatMulAttributes{});
    y = Transpose(y, {0, 2, 1, 3});
    x_ = Reshape(y, before);
  }

  void AddMatrixBlock() {
    const int64_t columns = Pick(2, 6);
    const ValueId before = x_;
    const bool transposed = Toss();
    ValueId w =
        transposed ? Weight({columns, last()}) : Weight({last(), columns});
    if (transposed && Toss()) {
      w = Transpose(w, {1, 0});
      x_ = Emit(Op::kMatMul, {x_, w}, MatMulAttributes{});
    } else {
      x_ = Emit(Op::kMatMul, {x_, w}, MatMulAttributes{false, transposed, {}});
    }
    if (Toss()) x_ = Binary(BinaryFunction::kAdd, x_, Weight({columns}));
    if (Toss()) AddUnary();
    if (shape() == builder_.shape(before)) x_ = Emit(Op::kAdd, {before, x_});
    if (!training_ && Pick(0, 3) == 0) {
      const Shape row{columns};
      x_ = Emit(Op::kMatMul, {x_, Weight({last(), columns})},
                MatMulAttributes{});
      x_ = Emit(Op::kBatchNormInference,
                {x_, Weight(row), Weight(row), Weight(row, ".running_mean"),
                 Weight(row, ".running_var")},
                NormAttributes{1e-2});
    }
  }

  Graph Infer() {
    graph_.AddOutput("output", x_);
    return std::move(graph_);
  }

  Graph Train() {
    x_ = Reshape(x_, {1, shape().elements()});
    const ValueId target = Input("target", shape());
    const ValueId loss =
        Emit(Op::kMeanSquaredError, {x_, target}, LossAttributes{});
    graph_.AddOutput("loss", loss);
    GPUPOOL_CHECK(RaisePatterns(graph_).ok());
    const ValueId raised = *graph_.FindOutput("loss");
    weights_.clear();
    for (const Value& value : graph_.values()) {
      if (value.memory_class == MemoryClass::kWeight) {
        weights_.push_back(value.id);
      }
    }
    auto gradients = AddGradients(graph_, raised, weights_);
    if (!gradients.ok()) {
      fprintf(stderr, "%s\n",
              std::string(gradients.status().message()).c_str());
    }
    GPUPOOL_CHECK(gradients.ok());
    StepTailOptions tail{.optimizer = SgdAttributes{.momentum = 0.9}};
    if (Toss()) tail.optimizer = AdamAttributes{};
    if (Toss()) tail.clip_norm = 0.1;
    GPUPOOL_CHECK(AddStepTail(graph_, weights_, *gradients, tail).ok());
    return std::move(graph_);
  }

  Philox philox_;
  const bool training_;
  Graph graph_;
  GraphBuilder builder_;
  ValueIds weights_;
  ValueId x_;
};

}  // namespace

Graph RandomGraph(uint64_t seed, bool training) {
  return Generator(seed, training).Make();
}

}  // namespace gpupool::engine::testing
