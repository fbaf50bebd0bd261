// Files that ask for too many numbers: constants that are computed at import,
// shapes that overflow, geometry beyond any tensor.
#include "tests/fuzz/hostile_models.h"
#include "tests/fuzz/hostile_text.h"

namespace gpupool::engine::onnx_import {
namespace {

// A constant a0 of 2^22 different numbers.
constexpr char kLarge[] =
    "z = Constant<value_int=0>() n = Constant<value_int=4194304>() "
    "one = Constant<value_int=1>() i = Range(z, n, one) a0 = Cast<to=1>(i) ";
// A constant s = [2048, 2048] and a0 of that shape.
constexpr char kSquare[] =
    "z = Constant<value_int=0>() n = Constant<value_int=4194304>() "
    "one = Constant<value_int=1>() i = Range(z, n, one) r = Cast<to=1>(i) "
    "s = Constant<value_ints=[2048, 2048]>() a0 = Reshape(r, s) ";

std::string Chain(const char* before, int count, const std::string& node,
                  const std::string& after) {
  return ModelOfNodes(absl::StrCat(before, Repeat(count, node), after));
}

std::string UnaryChain() {
  return Chain(kLarge, 100, "a$ = Erf(a%) ", "y = Relu(a100)");
}

std::string AskedUnaryChain() {
  return Chain(kLarge, 100, "a$ = Pow(a%, a0) ",
               "h = ReduceSum<keepdims=0>(a100) c = Cast<to=7>(h) "
               "y = ConstantOfShape(c)");
}

std::string LargeFill() {
  return ModelOfNodes(
      "s = Constant<value_ints=[67108864]>() f = ConstantOfShape(s) "
      "g = Neg(f) h = ReduceSum<keepdims=0>(g) c = Cast<to=7>(h) "
      "y = ConstantOfShape(c)");
}

std::string FillsOfRanges() {
  return Chain(kLarge, 200, "b$ = Range(z, n, one) ", "y = Relu(x)");
}

std::string TileChain() {
  return ModelOfNodes(
      absl::StrCat("b0 = Constant<value_floats=[1.0, 2.0]>() "
                   "r = Constant<value_ints=[64]>() ",
                   Repeat(12, "b$ = Tile(b%, r) "), "y = Relu(b12)"));
}

std::string WideTiles() {
  return ModelOfNodes(
      absl::StrCat("b0 = Constant<value_floats=[1.0, 2.0]>() "
                   "r = Constant<value_ints=[2097152]>() ",
                   Repeat(200, "b$ = Tile(b0, r) "), "y = Relu(b200)"));
}

std::string Expands() {
  return ModelOfNodes(
      absl::StrCat("b0 = Constant<value_floats=[1.0, 2.0]>() "
                   "r = Constant<value_ints=[2097152, 2]>() ",
                   Repeat(200, "b$ = Expand(b0, r) "), "y = Relu(b200)"));
}

std::string MatMuls() {
  return Chain(kSquare, 50, "a$ = MatMul(a%, a0) ", "y = Relu(a50)");
}

std::string AskedMatMul() {
  return Chain(kSquare, 1, "a$ = MatMul(a%, a0) ",
               "h = ReduceMax<keepdims=0>(a1) c = Cast<to=7>(h) "
               "y = ConstantOfShape(c)");
}

std::string Selections() {
  return Chain(kLarge, 20, "u$ = Unique(a0) w$ = NonZero(a0) ", "y = Relu(x)");
}

std::string TopKs() {
  return Chain(kLarge, 40, "v$, k$ = TopK(a0, n) ", "y = Relu(x)");
}

std::string Uniques() {
  return Chain(kLarge, 20, "u$ = Unique(a0) ", "y = Relu(x)");
}

std::string NonZeros() {
  return Chain(kLarge, 60, "u$ = NonZero(a0) ", "y = Relu(x)");
}

std::string Sums() {
  return Chain(kLarge, 100, "a$ = CumSum(a%, z) ", "y = Relu(a100)");
}

std::string Einsums() {
  return ModelOfNodes(absl::StrCat(
      kSquare,
      "y = Einsum<equation=\"ab,cd,ef,gh->abcdefgh\">(a0, a0, a0, a0)"));
}

std::string Convolution() {
  return ModelOfNodes(
      absl::StrCat(kSquare,
                   "s4 = Constant<value_ints=[1, 1, 2048, 2048]>() "
                   "b = Reshape(r, s4) c = Conv(b, b) "
                   "d = Conv<pads=[1024, 1024, 1023, 1023]>(b, b) "
                   "h = ReduceMax<keepdims=0>(d) e = Cast<to=7>(h) "
                   "y = ConstantOfShape(e)"));
}

std::string ConvolutionPads() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 1, 1, 2]>() b = Reshape(x, s4) "
      "y = Conv<pads=[4611686018427387904, 4611686018427387904, "
      "4611686018427387904, 4611686018427387904], "
      "strides=[9223372036854775807, 1], "
      "dilations=[9223372036854775807, 9223372036854775807]>(b, b)");
}

std::string TransposedConvolution() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 1, 1, 2]>() b = Reshape(x, s4) "
      "y = ConvTranspose<strides=[4611686018427387904, 4611686018427387904], "
      "output_padding=[9223372036854775806, 9223372036854775806]>(b, b)");
}

std::string PoolGeometry() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 1, 1, 2]>() b = Reshape(x, s4) "
      "y = AveragePool<kernel_shape=[2147483647, 2147483647], "
      "pads=[2147483647, 2147483647, 2147483647, 2147483647]>(b)");
}

std::string PoolCounts() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 1, 1, 2]>() b = Reshape(x, s4) "
      "y = AveragePool<kernel_shape=[1, 4194304], "
      "pads=[0, 4194303, 0, 4194303]>(b)");
}

std::string ShapeProduct() {
  return ModelOfNodes(
      "s = Constant<value_ints=[4611686018427387904, 4611686018427387904]>() "
      "y = Expand(x, s)");
}

std::string NegativeShape() {
  return ModelOfNodes(
      "s = Constant<value_ints=[-9223372036854775808, -1, 0]>() "
      "y = Reshape(x, s)");
}

std::string ResizeSizes() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 1, 1, 2]>() b = Reshape(x, s4) "
      "t = Constant<value_ints=[1, 1, 2147483648, 2147483648]>() "
      "y = Resize<mode=\"cubic\">(b, , , t)");
}

std::string ResizeScales() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 1, 1, 2]>() b = Reshape(x, s4) "
      "t = Constant<value_floats=[1.0, 1.0, 1e30, 1e-30]>() "
      "y = Resize<mode=\"linear\">(b, , t)");
}

std::string Shrink() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 1, 1, 281474976710656]>() "
      "e = Constant<value_float=0.5>() b = Expand(e, s4) "
      "t = Constant<value_ints=[1, 1, 1, 1000000]>() "
      "y = Resize<mode=\"linear\", antialias=1>(b, , , t)");
}

std::string Pads() {
  return ModelOfNodes(
      "p = Constant<value_ints=[9223372036854775807, 9223372036854775807]>() "
      "y = Pad(x, p)");
}

std::string PadConstants() {
  return ModelOfNodes(absl::StrCat(
      "c = Constant<value_floats=[1.0, 2.0]>() "
      "p = Constant<value_ints=[2097152, 2097150]>() ",
      Repeat(100, "b$ = Pad<mode=\"reflect\">(c, p) d$ = Pad(c, p) "),
      "y = Relu(x)"));
}

std::string OneHotDepth() {
  return ModelOfNodes(
      "i = Cast<to=7>(x) d = Constant<value_int=1099511627776>() "
      "v = Constant<value_floats=[0.0, 1.0]>() y = OneHot(i, d, v)");
}

std::string TinySteps() {
  return ModelOfNodes(
      "a = Constant<value_float=0.0>() b = Constant<value_float=1e38>() "
      "c = Constant<value_float=1e-37>() y = Range(a, b, c)");
}

std::string Triangles() {
  return ModelOfNodes(absl::StrCat(
      "s = Constant<value_ints=[16777216, 16777216]>() "
      "e = Constant<value_float=0.5>() b = Expand(e, s) t = Trilu(b) "
      "q = EyeLike(b) y = Add(t, q)"));
}

std::string SplitPieces() {
  return ModelOfNodes(
      "s = Constant<value_ints=[16777216]>() e = Constant<value_float=0.5>() "
      "b = Expand(e, s) q = SplitToSequence<keepdims=0>(b) "
      "y = ConcatFromSequence<axis=0, new_axis=1>(q)");
}

std::string Windows() {
  return ModelOfNodes(absl::StrCat("n = Constant<value_int=4194304>() ",
                                   Repeat(200, "w$ = HannWindow(n) "),
                                   "y = Relu(x)"));
}

std::string Gathers() {
  return Chain(kLarge, 60,
               "a$ = Gather(a%, i) b$ = ScatterElements(a0, i, a0) ",
               "y = Relu(a60)");
}

std::string DepthToSpace() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 2, 1, 1]>() b = Reshape(x, s4) "
      "y = DepthToSpace<blocksize=4294967296>(b)");
}

std::string Normalization() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 2, 1, 1]>() b = Reshape(x, s4) "
      "y = LRN<size=9223372036854775807>(b)");
}

std::string SampledRegions() {
  return ModelOfNodes(
      "s4 = Constant<value_ints=[1, 2, 1, 1]>() b = Reshape(x, s4) "
      "r = Constant<value_floats=[0.0, 0.0, 1e9, 1e9]>() "
      "s2 = Constant<value_ints=[1, 4]>() q = Reshape(r, s2) "
      "i = Constant<value_ints=[0]>() "
      "y = RoiAlign<output_height=2147483647, output_width=2147483647, "
      "sampling_ratio=2147483647>(b, q, i)");
}

}  // namespace

std::vector<HostileModel> HostileNumbers() {
  return {
      {"UnaryChain", "", UnaryChain},
      {"AskedUnaryChain", "too much would have to be computed",
       AskedUnaryChain},
      {"LargeFill", "too much would have to be computed", LargeFill},
      {"Ranges", "too much would have to be computed", FillsOfRanges},
      {"TileChain", "over the limit", TileChain},
      {"WideTiles", "", WideTiles},
      {"Expands", "", Expands},
      {"MatMuls", "", MatMuls},
      {"AskedMatMul", "too much would have to be computed", AskedMatMul},
      {"Selections", "too much would have to be computed", Selections},
      {"TopKs", "", TopKs},
      {"Uniques", "too much would have to be computed", Uniques},
      {"NonZeros", "too much would have to be computed", NonZeros},
      {"Sums", "", Sums},
      {"Einsums", "too many elements", Einsums},
      {"Convolution", "too much would have to be computed", Convolution},
      {"ConvolutionPads", "must be from 1 to", ConvolutionPads},
      {"TransposedConvolution", "must be from 1 to", TransposedConvolution},
      {"PoolGeometry", "must be from 1 to", PoolGeometry},
      {"PoolCounts", "must be from 1 to", PoolCounts},
      {"ShapeProduct", "too many elements", ShapeProduct},
      {"NegativeShape", "target dimension", NegativeShape},
      {"ResizeSizes", "too many elements", ResizeSizes},
      {"ResizeScales", "out of range", ResizeScales},
      {"Shrink", "table of more than", Shrink},
      {"Pads", "over the limit", Pads},
      {"PadConstants", "", PadConstants},
      {"OneHotDepth", "over the limit", OneHotDepth},
      {"TinySteps", "over the limit", TinySteps},
      {"Triangles", "over the limit", Triangles},
      {"SplitPieces", "more than 100000", SplitPieces},
      {"Windows", "too much would have to be computed", Windows},
      {"Gathers", "", Gathers},
      {"DepthToSpace", "must be from 1 to", DepthToSpace},
      {"Normalization", "must lie between", Normalization},
      {"SampledRegions", "must be from", SampledRegions},
  };
}

}  // namespace gpupool::engine::onnx_import
