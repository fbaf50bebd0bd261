// Lowers Fourier transforms to products with matrices of cosines and sines, and
// computes the mel scale.
#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/products.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// One transform along an axis of x [..., 1 or 2], whose last axis holds the
// real and the imaginary part.
struct Transform {
  int axis = 0;
  int64_t length = 1;  // numbers of the signal
  bool inverse = false;
  bool onesided = false;  // the spectrum has its first length / 2 + 1 numbers

  int64_t half() const { return length / 2 + 1; }
  int64_t inputs() const { return inverse && onesided ? half() : length; }
  int64_t outputs() const { return !inverse && onesided ? half() : length; }
  bool real_output() const { return inverse && onesided; }
};

// Element operations that a cosine and a sine are worth.
constexpr int64_t kWaveWork = 6;

// The real and the imaginary part of the numbers that a signal is multiplied
// by, [inputs, outputs].
struct Waves {
  ValueId cosine, sine;
};

// Returns the factor of one number of the input: 1 / length in an inverse
// transform. If its spectrum is onesided, most numbers stand for two.
double FactorOf(const Transform& transform, int64_t input) {
  if (!transform.inverse) return 1;
  const double one = 1 / static_cast<double>(transform.length);
  if (!transform.onesided) return one;
  return input == 0 || 2 * input == transform.length ? one : 2 * one;
}

absl::StatusOr<Waves> MakeWaves(NodeContext& ctx, const Transform& transform,
                                DType dtype) {
  const int64_t dims[] = {transform.inputs(), transform.outputs()};
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  absl::Status spent =
      ctx.importer().values().Spend(transform.length * kWaveWork);
  if (!spent.ok()) return ctx.Refuse(spent.message());
  // Waves repeat after `length` steps, so a table has all their numbers.
  std::vector<double> cosines, sines;
  const double sign = transform.inverse ? 1 : -1;
  for (int64_t i = 0; i < transform.length; ++i) {
    const double angle = 2 * M_PI * static_cast<double>(i) /
                         static_cast<double>(transform.length);
    cosines.push_back(std::cos(angle));
    sines.push_back(sign * std::sin(angle));
  }
  HostTensor cosine{dtype, shape, {}}, sine{dtype, shape, {}};
  cosine.numbers.reserve(static_cast<size_t>(shape.elements()));
  sine.numbers.reserve(static_cast<size_t>(shape.elements()));
  for (int64_t row = 0; row < dims[0]; ++row) {
    const double factor = FactorOf(transform, row);
    for (int64_t column = 0; column < dims[1]; ++column) {
      const auto at = static_cast<size_t>(row * column % transform.length);
      cosine.numbers.push_back(factor * cosines[at]);
      sine.numbers.push_back(factor * sines[at]);
    }
  }
  const ValueId real = ctx.Constant(std::move(cosine));
  return Waves{real, ctx.Constant(std::move(sine))};
}

// Returns the real or the imaginary part with the transform's axis last, cut or
// padded to the numbers that the transform takes.
absl::StatusOr<ValueId> Part(NodeContext& ctx, ValueId x,
                             const Transform& transform, int64_t part) {
  ASSIGN_OR_RETURN(const ValueId plane, TakeRow(ctx, x, ctx.rank(x) - 1, part));
  ASSIGN_OR_RETURN(ValueId rows, MoveLast(ctx, plane, transform.axis));
  const int last = ctx.rank(rows) - 1;
  const int64_t size = std::min(ctx.shape(rows)[last], transform.inputs());
  ASSIGN_OR_RETURN(rows, SliceAxis(ctx, rows, {.axis = last, .size = size}));
  std::vector<int64_t> after(static_cast<size_t>(last) + 1, 0);
  after.back() = transform.inputs() - size;
  return PadEnds(ctx, rows, std::move(after));
}

// Moves the axis of a result back and adds the last axis.
absl::StatusOr<ValueId> AsPart(NodeContext& ctx, ValueId rows, int axis) {
  ASSIGN_OR_RETURN(const ValueId plane, MoveFromLast(ctx, rows, axis));
  std::vector<int64_t> dims = Dims(ctx.shape(plane));
  dims.push_back(1);
  return ctx.Reshape(plane, dims);
}

// Returns the transform of x, which must not be empty.
absl::StatusOr<ValueId> Transformed(NodeContext& ctx, ValueId x,
                                    const Transform& transform) {
  ASSIGN_OR_RETURN(const Waves waves, MakeWaves(ctx, transform, ctx.dtype(x)));
  ASSIGN_OR_RETURN(const ValueId real, Part(ctx, x, transform, 0));
  ASSIGN_OR_RETURN(ValueId y_real, MatrixProduct(ctx, real, waves.cosine));
  ASSIGN_OR_RETURN(ValueId y_imaginary, MatrixProduct(ctx, real, waves.sine));
  if (ctx.shape(x)[ctx.rank(x) - 1] == 2) {
    ASSIGN_OR_RETURN(const ValueId imaginary, Part(ctx, x, transform, 1));
    ASSIGN_OR_RETURN(const ValueId turned,
                     MatrixProduct(ctx, imaginary, waves.sine));
    ASSIGN_OR_RETURN(y_real, ctx.Binary(Binary::kSubtract, y_real, turned));
    ASSIGN_OR_RETURN(const ValueId straight,
                     MatrixProduct(ctx, imaginary, waves.cosine));
    ASSIGN_OR_RETURN(y_imaginary, Plus(ctx, y_imaginary, straight));
  }
  ASSIGN_OR_RETURN(const ValueId y, AsPart(ctx, y_real, transform.axis));
  if (transform.real_output()) return y;
  ASSIGN_OR_RETURN(const ValueId z, AsPart(ctx, y_imaginary, transform.axis));
  return Concat(ctx, {y, z}, ctx.rank(x) - 1);
}

// Checks that the last axis of x has the parts that the transform takes.
absl::Status CheckParts(const NodeContext& ctx, ValueId x,
                        const Transform& transform) {
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  RETURN_IF_ERROR(RequireRank(ctx, x, 2));
  const Shape& shape = ctx.shape(x);
  const int64_t parts = shape[shape.rank() - 1];
  if (parts != 1 && parts != 2) {
    return ctx.Refuse("the last axis of ", shape.ToString(),
                      " must have 1 or 2 cells: real and imaginary part");
  }
  if (transform.onesided && (parts == 2) != transform.inverse) {
    return ctx.Refuse(
        "onesided transforms go from real numbers to a complex spectrum, or "
        "back");
  }
  if (shape.elements() == 0) return ctx.Refuse("the signal is empty");
  return absl::OkStatus();
}

absl::StatusOr<int> ReadSignalAxis(NodeContext& ctx, int rank) {
  int64_t at = ctx.opset() < 20 ? 1 : -2;
  if (ctx.opset() < 20) {
    ASSIGN_OR_RETURN(at, ctx.Int("axis", at));
  } else if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(at, KnownInt(ctx, 2, "the axis"));
  }
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, rank));
  if (axis == rank - 1) {
    return ctx.Refuse("axis ", at, " holds real and imaginary part");
  }
  return axis;
}

absl::Status LowerDft(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  Transform transform;
  ASSIGN_OR_RETURN(const int64_t inverse, ctx.Int("inverse", 0));
  ASSIGN_OR_RETURN(const int64_t onesided, ctx.Int("onesided", 0));
  transform.inverse = inverse != 0;
  transform.onesided = onesided != 0;
  RETURN_IF_ERROR(CheckParts(ctx, x, transform));
  ASSIGN_OR_RETURN(transform.axis, ReadSignalAxis(ctx, ctx.rank(x)));
  const int64_t size = ctx.shape(x)[transform.axis];
  transform.length = transform.real_output() ? 2 * (size - 1) : size;
  if (ctx.has_input(1)) {
    ASSIGN_OR_RETURN(transform.length, KnownInt(ctx, 1, "the length"));
  }
  if (transform.length < 1 || transform.length > kMaxListedNumbers) {
    return ctx.Refuse("a transform of ", transform.length,
                      " numbers must have from 1 to ", kMaxListedNumbers);
  }
  return Finish(ctx, Transformed(ctx, x, transform));
}

// Returns the frames of a signal [N, length, parts] as [N, frames, size,
// parts].
absl::StatusOr<ValueId> Frames(NodeContext& ctx, ValueId signal, int64_t size) {
  ASSIGN_OR_RETURN(const int64_t step, KnownInt(ctx, 1, "the frame step"));
  const int64_t length = ctx.shape(signal)[1];
  if (step < 1 || size < 1 || size > length) {
    return ctx.Refuse("frames of ", size, " numbers, ", step,
                      " apart, do not fit a signal of ", length);
  }
  const int64_t dims[] = {(length - size) / step + 1, size};
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  HostTensor places{DType::kInt64, shape, {}};
  places.numbers.reserve(static_cast<size_t>(shape.elements()));
  for (int64_t frame = 0; frame < dims[0]; ++frame) {
    for (int64_t i = 0; i < size; ++i) {
      places.numbers.push_back(static_cast<double>(frame * step + i));
    }
  }
  return ctx.Emit(Op::kGather, {signal, ctx.Constant(std::move(places))},
                  AxisAttributes{1});
}

absl::Status LowerStft(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId signal, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, signal, 3, 3));
  Transform transform{.axis = 2};
  ASSIGN_OR_RETURN(const int64_t onesided, ctx.Int("onesided", 1));
  transform.onesided = onesided != 0;
  RETURN_IF_ERROR(CheckParts(ctx, signal, transform));
  ValueId window;
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(2));
    RETURN_IF_ERROR(RequireRank(ctx, given, 1, 1));
    ASSIGN_OR_RETURN(window, ctx.Cast(given, ctx.dtype(signal)));
    transform.length = ctx.shape(window)[0];
  } else if (!ctx.has_input(3)) {
    return ctx.Refuse("needs a window or a frame length");
  }
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(transform.length, KnownInt(ctx, 3, "the frame length"));
  }
  ASSIGN_OR_RETURN(ValueId frames, Frames(ctx, signal, transform.length));
  if (window.valid()) {
    if (ctx.shape(window)[0] != transform.length) {
      return ctx.Refuse("a window of ", ctx.shape(window)[0],
                        " numbers does not fit frames of ", transform.length);
    }
    ASSIGN_OR_RETURN(const ValueId column,
                     ctx.Reshape(window, {transform.length, 1}));
    ASSIGN_OR_RETURN(frames, ctx.Binary(Binary::kMultiply, frames, column));
  }
  return Finish(ctx, Transformed(ctx, frames, transform));
}

// The triangles of a mel matrix: triangle i rises from corner i to corner i + 1
// and falls to corner i + 2. Corners are bins of the spectrum.
struct Mel {
  int64_t triangles = 1;
  int64_t bins = 1;
  std::vector<int64_t> corners;
};

absl::StatusOr<Mel> ReadMel(NodeContext& ctx) {
  Mel mel;
  ASSIGN_OR_RETURN(mel.triangles, KnownInt(ctx, 0, "the number of bands"));
  ASSIGN_OR_RETURN(const int64_t length, KnownInt(ctx, 1, "the length"));
  ASSIGN_OR_RETURN(const int64_t rate, KnownInt(ctx, 2, "the sample rate"));
  ASSIGN_OR_RETURN(const double low, KnownFloat(ctx, 3, "the lower edge"));
  ASSIGN_OR_RETURN(const double high, KnownFloat(ctx, 4, "the upper edge"));
  if (mel.triangles < 1 || mel.triangles > kMaxListedNumbers || length < 1 ||
      length > kMaxListedNumbers || rate < 1) {
    return ctx.Refuse(mel.triangles, " bands of a transform of ", length,
                      " numbers at ", rate, " Hz are not possible");
  }
  mel.bins = length / 2 + 1;
  RETURN_IF_ERROR(ReserveNumbers(ctx, mel.triangles + 2));
  const auto mels = [](double hertz) {
    return 2595 * std::log10(1 + hertz / 700);
  };
  // The specification's step divides by two more than there are bands.
  const double step =
      (mels(high) - mels(low)) / static_cast<double>(mel.triangles + 2);
  for (int64_t i = 0; i < mel.triangles + 2; ++i) {
    const double at = mels(low) + static_cast<double>(i) * step;
    const double hertz = 700 * (std::pow(10, at / 2595) - 1);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz /
                                  static_cast<double>(rate));
    // The negation also refuses NaN.
    if (!(bin >= 0 && bin < static_cast<double>(mel.bins))) {
      return ctx.Refuse("the edges ", low, " and ", high,
                        " Hz are outside of the spectrum of ", mel.bins,
                        " bins at ", rate, " Hz");
    }
    mel.corners.push_back(static_cast<int64_t>(bin));
  }
  return mel;
}

absl::Status LowerMelWeightMatrix(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const DType dtype,
                   ctx.TypeAttribute("output_datatype", DType::kFloat32));
  ASSIGN_OR_RETURN(const Mel mel, ReadMel(ctx));
  ASSIGN_OR_RETURN(const Shape shape,
                   MakeShape(ctx, {mel.bins, mel.triangles}));
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  HostTensor matrix{dtype, shape, {}};
  matrix.numbers.assign(static_cast<size_t>(shape.elements()), 0);
  for (int64_t i = 0; i < mel.triangles; ++i) {
    const auto first = mel.corners.begin() + i;
    const int64_t left = first[0], top = first[1], right = first[2];
    const auto set = [&](int64_t bin, int64_t part, int64_t whole) {
      matrix.numbers[static_cast<size_t>(bin * mel.triangles + i)] =
          static_cast<double>(part) / static_cast<double>(whole);
    };
    for (int64_t bin = left; bin < top; ++bin) set(bin, bin - left, top - left);
    set(top, 1, 1);
    for (int64_t bin = top + 1; bin < right; ++bin) {
      set(bin, right - bin, right - top);
    }
  }
  ctx.Set(0, ctx.Constant(std::move(matrix)));
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> SignalOperators() {
  static constexpr absl::string_view kFamily = "signal";
  static const OperatorEntry rows[] = {
      {"", "DFT", kFamily, kNumbers, LowerDft},
      {"", "MelWeightMatrix", kFamily, kNumbers, LowerMelWeightMatrix},
      {"", "STFT", kFamily, kNumbers, LowerStft},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
