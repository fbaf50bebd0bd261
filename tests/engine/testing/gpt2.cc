#include "tests/engine/testing/gpt2.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/engine/testing/built_model.h"

namespace gpupool::engine::testing {
namespace {

// A uniform distribution with GPT-2's deviation of 0.02.
constexpr double kTableBound = 0.02 * 1.7320508075688772;

class Gpt2Assembly {
 public:
  Gpt2Assembly(const Gpt2Sizes& sizes, const BuildOptions& options)
      : s_(sizes), make_(options) {}

  ModelGraph Build() {
    const ValueId tokens = make_.Input("tokens", DType::kInt64, {s_.tokens});
    const ValueId table =
        make_.Weight("wte", {s_.vocabulary, s_.width}, kTableBound);
    ValueId x = make_.Emit(Op::kGather, {table, tokens}, AxisAttributes{0});
    const ValueId positions =
        make_.Weight("wpe", {s_.tokens, s_.width}, kTableBound);
    x = make_.Emit(Op::kBinary, {x, positions}, BinaryAttributes{});
    for (int64_t i = 0; i < s_.blocks; ++i) {
      const std::string name = absl::StrCat("h.", i, ".");
      x = make_.Add(x, Attend(name + "attn.", Norm(name + "ln_1", x)));
      x = make_.Add(x, Widen(name + "mlp.", Norm(name + "ln_2", x)));
    }
    x = make_.Reshape(Norm("ln_f", x), {make_.batch() * s_.tokens, s_.width});
    x = make_.Emit(Op::kMatMul, {x, table},
                   MatMulAttributes{.transpose_b = true});
    return make_.Finish(
        "scores", make_.Reshape(x, {make_.batch(), s_.tokens, s_.vocabulary}));
  }

 private:
  ValueId Norm(const std::string& name, ValueId x) {
    v1::Layer layer;
    layer.mutable_layer_norm();
    return make_.Layer(name, layer, x);
  }
  ValueId Transpose(ValueId x) {
    return make_.Emit(Op::kTranspose, {x}, TransposeAttributes{{0, 2, 1, 3}});
  }
  // Returns part `which` of [batch, tokens, parts * width] as [batch, heads,
  // tokens, width / heads].
  ValueId Heads(ValueId parts, int64_t which) {
    const SliceAttributes slice{.starts = {0, 0, which * s_.width},
                                .steps = {1, 1, 1},
                                .sizes = {make_.batch(), s_.tokens, s_.width}};
    return Transpose(make_.Reshape(
        make_.Emit(Op::kSlice, {parts}, slice),
        {make_.batch(), s_.tokens, s_.heads, s_.width / s_.heads}));
  }
  ValueId Attend(const std::string& name, ValueId x) {
    const ValueId parts = make_.Dense(name + "c_attn", x, 3 * s_.width);
    const auto depth = static_cast<double>(s_.width / s_.heads);
    const ValueId y = make_.Emit(
        Op::kAttention, {Heads(parts, 0), Heads(parts, 1), Heads(parts, 2)},
        AttentionAttributes{.scale = 1 / std::sqrt(depth),
                            .causal = true,
                            .with_lse = make_.training()});
    return make_.Dense(
        name + "c_proj",
        make_.Reshape(Transpose(y), {make_.batch(), s_.tokens, s_.width}),
        s_.width);
  }
  ValueId Widen(const std::string& name, ValueId x) {
    v1::Layer gelu;
    gelu.mutable_gelu()->set_tanh_approximation(true);
    x = make_.Dense(name + "c_fc", x, 4 * s_.width);
    return make_.Dense(name + "c_proj", make_.Layer(name + "gelu", gelu, x),
                       s_.width);
  }

  const Gpt2Sizes s_;
  ModelAssembly make_;
};

}  // namespace

std::shared_ptr<const ModelSource> Gpt2(const Gpt2Sizes& sizes) {
  return BuiltModel([sizes](const BuildOptions& options) {
    return Gpt2Assembly(sizes, options).Build();
  });
}

}  // namespace gpupool::engine::testing
