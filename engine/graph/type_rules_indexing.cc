// Rules of gathers and scatters, whose indices are data.
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/graph/axis_checks.h"
#include "engine/graph/type_rules.h"

namespace gpupool::engine::type_rules {
namespace {

using Dims = std::vector<int64_t>;

absl::Status CheckIndices(Op op, const TensorType& indices) {
  if (indices.dtype == DType::kInt32 || indices.dtype == DType::kInt64) {
    return absl::OkStatus();
  }
  return Refuse(op, "indices must be int32 or int64, not ", Text(indices));
}

// Returns the shape of x with the axis replaced by the indices' shape.
absl::StatusOr<Shape> GatherShape(Op op, int axis, const Shape& x,
                                  const TensorType& indices) {
  RETURN_IF_ERROR(CheckIndices(op, indices));
  RETURN_IF_ERROR(CheckAxis(op, axis, x.rank()));
  Dims dims;
  for (int i = 0; i < axis; ++i) dims.push_back(x[i]);
  for (int64_t dim : indices.shape.dims()) dims.push_back(dim);
  for (int i = axis + 1; i < x.rank(); ++i) dims.push_back(x[i]);
  return Shape::CreateMaybeEmpty(dims);
}

// Checks the indices of the elementwise forms: they have as many axes as x, and
// only `axis` may be longer than in x.
absl::Status CheckElementIndices(Op op, int axis, const Shape& x,
                                 const TensorType& indices) {
  RETURN_IF_ERROR(CheckIndices(op, indices));
  RETURN_IF_ERROR(CheckRank(op, indices, x.rank()));
  RETURN_IF_ERROR(CheckAxis(op, axis, x.rank()));
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis && indices.shape[i] > x[i]) {
      return Refuse(op, "indices ", indices.shape.ToString(),
                    " are longer than the input ", x.ToString(), " in axis ",
                    i);
    }
  }
  return absl::OkStatus();
}

// Returns the shape of the elements that index tuples [batch..., ..., n]
// select.
absl::StatusOr<Shape> TupleShape(Op op, int batch_dims, const Shape& x,
                                 const TensorType& indices) {
  RETURN_IF_ERROR(CheckIndices(op, indices));
  const Shape& tuples = indices.shape;
  if (batch_dims < 0 || batch_dims >= tuples.rank() || batch_dims >= x.rank()) {
    return Refuse(op, "the input ", x.ToString(), " and indices ",
                  tuples.ToString(), " must have more than ", batch_dims,
                  " dimensions");
  }
  for (int i = 0; i < batch_dims; ++i) {
    if (x[i] != tuples[i]) {
      return Refuse(op, "the input ", x.ToString(), " and indices ",
                    tuples.ToString(), " differ in batch axis ", i);
    }
  }
  const int64_t length = tuples[tuples.rank() - 1];
  if (length < 1 || length > x.rank() - batch_dims) {
    return Refuse(op, "tuples of ", length, " indices into ", x.ToString(),
                  " must have 1 to ", x.rank() - batch_dims, " entries");
  }
  Dims dims;
  for (int i = 0; i + 1 < tuples.rank(); ++i) dims.push_back(tuples[i]);
  for (int i = batch_dims + static_cast<int>(length); i < x.rank(); ++i) {
    dims.push_back(x[i]);
  }
  return Shape::CreateMaybeEmpty(dims);
}

absl::Status CheckReduction(Op op, const ScatterAttributes& scatter,
                            const TensorType& x) {
  if (x.dtype != DType::kBool || scatter.reduction == ScatterReduction::kNone) {
    return absl::OkStatus();
  }
  return Refuse(op, "a reduction needs numbers, not ", Text(x));
}

// The most steps of a walk.
constexpr int64_t kMaxLevels = int64_t{1} << 30;

absl::Status CheckList(Op op, absl::string_view what, const TensorType& type) {
  if (type.dtype == DType::kInt32 && type.shape.rank() == 1) {
    return absl::OkStatus();
  }
  return Refuse(op, what, " must be int32 with one dimension, not ",
                Text(type));
}

}  // namespace

Result TreeWalk(Op op, const Attributes& attributes, Inputs inputs) {
  const int64_t levels = std::get<TreeWalkAttributes>(attributes).levels;
  if (levels < 0 || levels > kMaxLevels) {
    return Refuse(op, levels, " levels must be from 0 to ", kMaxLevels);
  }
  const TensorType& x = inputs[0];
  RETURN_IF_ERROR(CheckFloating(op, x));
  RETURN_IF_ERROR(CheckRank(op, x, 2));
  RETURN_IF_ERROR(CheckList(op, "columns", inputs[1]));
  RETURN_IF_ERROR(CheckList(op, "roots", inputs[5]));
  const Shape& slots = inputs[1].shape;
  const TensorType links{DType::kInt32, slots};
  RETURN_IF_ERROR(CheckType(op, "thresholds", inputs[2], {x.dtype, slots}));
  RETURN_IF_ERROR(CheckType(op, "larger", inputs[3], links));
  RETURN_IF_ERROR(CheckType(op, "smaller", inputs[4], links));
  const int64_t dims[] = {x.shape[0], inputs[5].shape[0]};
  ASSIGN_OR_RETURN(const Shape y, Shape::CreateMaybeEmpty(dims));
  return TensorTypes{{DType::kInt32, y}};
}

Result Gather(Op op, const Attributes& attributes, Inputs inputs) {
  ASSIGN_OR_RETURN(const Shape y,
                   GatherShape(op, std::get<AxisAttributes>(attributes).axis,
                               inputs[0].shape, inputs[1]));
  return TensorTypes{{inputs[0].dtype, y}};
}

// Checks dy, indices -> dx against the forward rule for dx.
Result GatherGrad(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& grad = std::get<GatherGradAttributes>(attributes);
  RETURN_IF_ERROR(CheckFloating(op, inputs[0]));
  const DType dtype = inputs[0].dtype;
  ASSIGN_OR_RETURN(const Shape dy,
                   GatherShape(op, grad.axis, grad.input, inputs[1]));
  RETURN_IF_ERROR(CheckType(op, "dy", inputs[0], {dtype, dy}));
  return TensorTypes{{dtype, grad.input}};
}

Result GatherElements(Op op, const Attributes& attributes, Inputs inputs) {
  RETURN_IF_ERROR(CheckElementIndices(op,
                                      std::get<AxisAttributes>(attributes).axis,
                                      inputs[0].shape, inputs[1]));
  return TensorTypes{{inputs[0].dtype, inputs[1].shape}};
}

Result GatherNd(Op op, const Attributes& attributes, Inputs inputs) {
  const int batch_dims = std::get<GatherNdAttributes>(attributes).batch_dims;
  ASSIGN_OR_RETURN(const Shape y,
                   TupleShape(op, batch_dims, inputs[0].shape, inputs[1]));
  return TensorTypes{{inputs[0].dtype, y}};
}

Result ScatterElements(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& scatter = std::get<ScatterAttributes>(attributes);
  const TensorType& x = inputs[0];
  RETURN_IF_ERROR(CheckElementIndices(op, scatter.axis, x.shape, inputs[1]));
  RETURN_IF_ERROR(
      CheckType(op, "updates", inputs[2], {x.dtype, inputs[1].shape}));
  RETURN_IF_ERROR(CheckReduction(op, scatter, x));
  return TensorTypes{x};
}

Result ScatterNd(Op op, const Attributes& attributes, Inputs inputs) {
  const auto& scatter = std::get<ScatterAttributes>(attributes);
  const TensorType& x = inputs[0];
  ASSIGN_OR_RETURN(const Shape updates, TupleShape(op, 0, x.shape, inputs[1]));
  RETURN_IF_ERROR(CheckType(op, "updates", inputs[2], {x.dtype, updates}));
  RETURN_IF_ERROR(CheckReduction(op, scatter, x));
  return TensorTypes{x};
}

}  // namespace gpupool::engine::type_rules
