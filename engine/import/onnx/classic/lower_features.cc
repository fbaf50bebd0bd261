// Operators of ai.onnx.ml that prepare features: scaling, encoding, filling in.
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/classic/classic_parts.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// Returns UNIMPLEMENTED when one of these lists of texts is there.
absl::Status RefuseTexts(NodeContext& ctx,
                         std::initializer_list<absl::string_view> names) {
  for (const absl::string_view name : names) {
    if (!ctx.has_attribute(name)) continue;
    return ctx.Unsupported("'", name, "' is not: texts are not served; map ",
                           "them to numbers before the model");
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> LastSize(const NodeContext& ctx, ValueId x) {
  RETURN_IF_ERROR(RequireRank(ctx, x, 1));
  return ctx.shape(x)[ctx.rank(x) - 1];
}

absl::Status LowerScaler(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t features, LastSize(ctx, given));
  ASSIGN_OR_RETURN(const ValueId x, ctx.Cast(given, DType::kFloat32));
  ASSIGN_OR_RETURN(const ValueId offset, PerFeature(ctx, "offset", features));
  ASSIGN_OR_RETURN(const ValueId scale, PerFeature(ctx, "scale", features));
  ASSIGN_OR_RETURN(const ValueId centred,
                   ctx.Binary(Binary::kSubtract, x, offset));
  return Finish(ctx, ctx.Binary(Binary::kMultiply, centred, scale));
}

// Divides each row by its norm. A row whose norm is 0 stays.
absl::Status LowerNormalizer(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, given, 1));
  ASSIGN_OR_RETURN(const int form, Choice(ctx, "norm", {"MAX", "L1", "L2"}));
  ASSIGN_OR_RETURN(const ValueId x, ctx.Cast(given, DType::kFloat32));
  const std::vector<int> last{ctx.rank(x) - 1};
  ValueId norm;
  if (form == 0) {
    ASSIGN_OR_RETURN(norm, ctx.Reduce(ReduceFunction::kMax, x, last, true));
  } else {
    ASSIGN_OR_RETURN(const ValueId size,
                     form == 1 ? ctx.Unary(Unary::kAbs, x)
                               : ctx.Binary(Binary::kMultiply, x, x));
    ASSIGN_OR_RETURN(norm, ctx.Reduce(ReduceFunction::kSum, size, last, true));
  }
  if (form == 2) {
    ASSIGN_OR_RETURN(norm, ctx.Unary(Unary::kSqrt, norm));
  }
  ASSIGN_OR_RETURN(const ValueId empty, ctx.Binary(Binary::kEqual, norm, 0.0));
  ASSIGN_OR_RETURN(
      const ValueId divisor,
      ctx.Emit(Op::kWhere, {empty, ctx.Scalar(ctx.dtype(norm), 1), norm}));
  return Finish(ctx, ctx.Binary(Binary::kDivide, x, divisor));
}

absl::Status LowerBinarizer(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const double threshold, ctx.Float("threshold", 0));
  ASSIGN_OR_RETURN(const ValueId above,
                   ctx.Binary(Binary::kGreater, x, threshold));
  return Finish(ctx, ctx.Cast(above, ctx.dtype(x)));
}

// Returns the bool whether a number is the one to be replaced, which may be
// NaN.
absl::StatusOr<ValueId> IsMissing(NodeContext& ctx, ValueId x) {
  if (!IsFloating(ctx.dtype(x))) {
    ASSIGN_OR_RETURN(const int64_t number, ctx.Int("replaced_value_int64", 0));
    return ctx.Binary(Binary::kEqual, x, static_cast<double>(number));
  }
  ASSIGN_OR_RETURN(const double number, ctx.Float("replaced_value_float", 0));
  if (std::isnan(number)) return ctx.Unary(Unary::kIsNan, x);
  return ctx.Binary(Binary::kEqual, x, number);
}

absl::Status LowerImputer(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t features, LastSize(ctx, x));
  const bool real = IsFloating(ctx.dtype(x));
  std::vector<double> numbers;
  if (real) {
    ASSIGN_OR_RETURN(numbers, ctx.Floats("imputed_value_floats", {}));
  } else {
    ASSIGN_OR_RETURN(const std::vector<int64_t> whole,
                     ctx.Ints("imputed_value_int64s", {}));
    numbers.assign(whole.begin(), whole.end());
  }
  const auto size = static_cast<int64_t>(numbers.size());
  RETURN_IF_ERROR(RequirePerFeature(
      ctx, real ? "imputed_value_floats" : "imputed_value_int64s", size,
      features));
  ASSIGN_OR_RETURN(const ValueId imputed,
                   Listed(ctx, ctx.dtype(x), {size}, std::move(numbers)));
  ASSIGN_OR_RETURN(const ValueId missing, IsMissing(ctx, x));
  return Finish(ctx, ctx.Emit(Op::kWhere, {missing, imputed, x}));
}

absl::Status LowerOneHotEncoder(NodeContext& ctx) {
  RETURN_IF_ERROR(RefuseTexts(ctx, {"cats_strings"}));
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  ASSIGN_OR_RETURN(const std::vector<int64_t> categories,
                   ctx.Ints("cats_int64s", {}));
  if (categories.empty()) return ctx.Refuse("needs 'cats_int64s'");
  ASSIGN_OR_RETURN(const int64_t zeros, ctx.Int("zeros", 1));
  if (zeros == 0) {
    ctx.importer().Warn(
        absl::StrCat(ctx.Name(), ": an unknown category gives zeros instead ",
                     "of an error (zeros = 0)"));
  }
  ASSIGN_OR_RETURN(const ValueId whole, ctx.Cast(given, DType::kInt64));
  std::vector<int64_t> dims = Dims(ctx.shape(whole));
  dims.push_back(1);
  ASSIGN_OR_RETURN(const ValueId x, ctx.Reshape(whole, dims));
  ASSIGN_OR_RETURN(
      const ValueId table,
      Listed(ctx, DType::kInt64, {static_cast<int64_t>(categories.size())},
             {categories.begin(), categories.end()}));
  ASSIGN_OR_RETURN(const ValueId hit, ctx.Binary(Binary::kEqual, x, table));
  return Finish(ctx, ctx.Cast(hit, DType::kFloat32));
}

// The numbers of one side of LabelEncoder.
struct Side {
  DType dtype = DType::kInt64;
  std::vector<double> numbers;
};

absl::StatusOr<Side> ReadSide(NodeContext& ctx, absl::string_view name) {
  const std::string tensor = absl::StrCat(name, "_tensor");
  const std::string floats = absl::StrCat(name, "_floats");
  const std::string ints = absl::StrCat(name, "_int64s");
  Side side;
  if (ctx.has_attribute(tensor)) {
    ASSIGN_OR_RETURN(HostTensor numbers, ctx.TensorAttribute(tensor));
    side.dtype = numbers.dtype;
    side.numbers = std::move(numbers.numbers);
  } else if (ctx.has_attribute(floats)) {
    side.dtype = DType::kFloat32;
    ASSIGN_OR_RETURN(side.numbers, ctx.Floats(floats, {}));
  } else {
    ASSIGN_OR_RETURN(const std::vector<int64_t> whole, ctx.Ints(ints, {}));
    side.numbers.assign(whole.begin(), whole.end());
  }
  if (side.numbers.empty()) {
    return ctx.Refuse("needs numbers in '", ints, "', '", floats, "' or '",
                      tensor, "'");
  }
  return side;
}

absl::StatusOr<double> ReadDefault(NodeContext& ctx, const Side& values) {
  if (ctx.has_attribute("default_tensor")) {
    ASSIGN_OR_RETURN(const HostTensor one,
                     ctx.TensorAttribute("default_tensor"));
    if (one.numbers.size() == 1) return one.numbers[0];
    return ctx.Refuse("'default_tensor' has ", one.numbers.size(),
                      " numbers instead of 1");
  }
  if (IsFloating(values.dtype)) return ctx.Float("default_float", -0.0);
  ASSIGN_OR_RETURN(const int64_t whole, ctx.Int("default_int64", -1));
  return static_cast<double>(whole);
}

// Returns the bool [..., keys] whether x [..., 1] is the key. NaN is NaN.
absl::StatusOr<ValueId> HitKeys(NodeContext& ctx, ValueId x, ValueId table) {
  ASSIGN_OR_RETURN(const ValueId equal, ctx.Binary(Binary::kEqual, x, table));
  if (!IsFloating(ctx.dtype(x))) return equal;
  ASSIGN_OR_RETURN(const ValueId nan, ctx.Unary(Unary::kIsNan, x));
  ASSIGN_OR_RETURN(const ValueId nan_key, ctx.Unary(Unary::kIsNan, table));
  ASSIGN_OR_RETURN(const ValueId both, ctx.Binary(Binary::kAnd, nan, nan_key));
  return ctx.Binary(Binary::kOr, equal, both);
}

// Compares each number with all keys. The first that is equal counts.
absl::Status LowerLabelEncoder(NodeContext& ctx) {
  RETURN_IF_ERROR(
      RefuseTexts(ctx, {"classes_strings", "keys_strings", "values_strings"}));
  ASSIGN_OR_RETURN(const Side keys, ReadSide(ctx, "keys"));
  ASSIGN_OR_RETURN(const Side values, ReadSide(ctx, "values"));
  const auto count = static_cast<int64_t>(keys.numbers.size());
  if (values.numbers.size() != keys.numbers.size()) {
    return ctx.Refuse("has ", count, " keys and ", values.numbers.size(),
                      " values; both must be as many");
  }
  ASSIGN_OR_RETURN(const double otherwise, ReadDefault(ctx, values));
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  const std::vector<int64_t> shape = Dims(ctx.shape(given));
  std::vector<int64_t> dims = shape;
  dims.push_back(1);
  ASSIGN_OR_RETURN(const ValueId x, ctx.Reshape(given, dims));
  ASSIGN_OR_RETURN(const ValueId key_table,
                   Listed(ctx, ctx.dtype(given), {count}, keys.numbers));
  ASSIGN_OR_RETURN(const ValueId value_table,
                   Listed(ctx, values.dtype, {count}, values.numbers));
  ASSIGN_OR_RETURN(const ValueId hits, HitKeys(ctx, x, key_table));
  ASSIGN_OR_RETURN(const ValueId numbers, ctx.Cast(hits, DType::kFloat32));
  const int last = ctx.rank(numbers) - 1;
  ArgReduceAttributes first;
  first.axis = last;
  ASSIGN_OR_RETURN(const ValueId place,
                   ctx.Emit(Op::kArgReduce, {numbers}, first));
  ASSIGN_OR_RETURN(const ValueId found,
                   ctx.Reduce(ReduceFunction::kMax, numbers, {last}, false));
  ASSIGN_OR_RETURN(const ValueId known,
                   ctx.Binary(Binary::kGreater, found, 0.0));
  ASSIGN_OR_RETURN(
      const ValueId value,
      ctx.Emit(Op::kGather, {value_table, place}, AxisAttributes{0}));
  return Finish(ctx,
                ctx.Emit(Op::kWhere,
                         {known, value, ctx.Scalar(values.dtype, otherwise)}));
}

// Takes columns of the last axis. One dimension is one row.
absl::Status LowerArrayFeatureExtractor(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  ASSIGN_OR_RETURN(const int64_t columns, LastSize(ctx, given));
  ASSIGN_OR_RETURN(const ValueId list, ctx.Input(1));
  const int64_t count = ctx.shape(list).elements();
  if (count == 0) return ctx.Refuse("needs at least one index");
  ASSIGN_OR_RETURN(const ValueId indices, ctx.Reshape(list, {count}));
  ASSIGN_OR_RETURN(const ValueId x, ctx.rank(given) == 1
                                        ? ctx.Reshape(given, {1, columns})
                                        : absl::StatusOr<ValueId>(given));
  return Finish(ctx, ctx.Emit(Op::kGather, {x, indices},
                              AxisAttributes{ctx.rank(x) - 1}));
}

// Joins the columns of the inputs, each cut or filled with zeros to its number
// of columns.
absl::Status LowerFeatureVectorizer(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const std::vector<int64_t> widths,
                   ctx.Ints("inputdimensions", {}));
  if (widths.empty() ||
      widths.size() != static_cast<size_t>(ctx.input_count())) {
    return ctx.Refuse("'inputdimensions' has ", widths.size(), " numbers for ",
                      ctx.input_count(), " inputs");
  }
  ValueIds parts;
  for (size_t i = 0; i < widths.size(); ++i) {
    ASSIGN_OR_RETURN(const ValueId given, ctx.Input(static_cast<int>(i)));
    RETURN_IF_ERROR(RequireRank(ctx, given, 1));
    const Shape shape = ctx.shape(given);
    const int64_t columns = Product(shape, 1, shape.rank());
    if (widths[i] < 1 || widths[i] > kMaxListedNumbers) {
      return ctx.Refuse("an input dimension of ", widths[i],
                        " must be from 1 to ", kMaxListedNumbers);
    }
    ASSIGN_OR_RETURN(const ValueId typed, ctx.Cast(given, DType::kFloat32));
    ASSIGN_OR_RETURN(const ValueId rows,
                     ctx.Reshape(typed, {shape[0], columns}));
    ASSIGN_OR_RETURN(
        const ValueId cut,
        SliceAxis(ctx, rows,
                  {.axis = 1, .size = std::min(columns, widths[i])}));
    ASSIGN_OR_RETURN(
        parts.emplace_back(),
        PadEnds(ctx, cut, {0, std::max<int64_t>(0, widths[i] - columns)}));
  }
  return Finish(ctx, Concat(ctx, parts, 1));
}

// Passes the scores through. A list of maps from labels to scores cannot be
// served.
absl::Status LowerZipMap(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ctx.importer().Warn(absl::StrCat(
      ctx.Name(), ": a list of maps is not served; its output is the tensor ",
      "of scores, with one column for each class"));
  ctx.Set(0, x);
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> FeatureOperators() {
  static constexpr absl::string_view kFamily = "features";
  static const OperatorEntry rows[] = {
      {kMl, "ArrayFeatureExtractor", kFamily, kShapes,
       LowerArrayFeatureExtractor},
      {kMl, "Binarizer", kFamily, kShapes, LowerBinarizer},
      {kMl, "FeatureVectorizer", kFamily, kShapes, LowerFeatureVectorizer},
      {kMl, "Imputer", kFamily, kShapes, LowerImputer},
      {kMl, "LabelEncoder", kFamily, kShapes, LowerLabelEncoder},
      {kMl, "Normalizer", kFamily, kShapes, LowerNormalizer},
      {kMl, "OneHotEncoder", kFamily, kShapes, LowerOneHotEncoder},
      {kMl, "Scaler", kFamily, kShapes, LowerScaler},
      {kMl, "ZipMap", kFamily, kShapes, LowerZipMap},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
