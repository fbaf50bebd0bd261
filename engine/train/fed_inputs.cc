#include "engine/train/fed_inputs.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/check.h"
#include "engine/base/quoted_names.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/transform/transform_check.h"
#include "engine/model/loss_terms.h"

namespace gpupool::engine {
namespace {

template <typename T>
absl::Span<T> CellsAs(absl::Span<std::byte> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

absl::Status CheckPort(const ModelPort& input) {
  if (!input.batched) {
    return Refuse(
        "the model cannot be trained on rows of a dataset: its input '",
        input.name, "' has no batch dimension in front");
  }
  if (input.dtype == DType::kFloat32 || input.dtype == DType::kInt32 ||
      input.dtype == DType::kInt64) {
    return absl::OkStatus();
  }
  return Refuse("the model's input '", input.name, "' is ",
                DTypeName(input.dtype),
                "; training feeds float32, int32 and int64 inputs");
}

// Checks that a row has as many numbers as an example of the input.
absl::Status CheckRowNumbers(const ModelPort& input,
                             const std::vector<int64_t>& shape) {
  const auto wanted = static_cast<uint64_t>(input.example().elements());
  ASSIGN_OR_RETURN(const uint64_t found, CheckedElementCount(shape));
  if (wanted == found) return absl::OkStatus();
  return Refuse("the model's input '", input.name, "' ",
                input.example().ToString(), " takes ", wanted,
                " numbers, but a row of the dataset has ", found, " (shape [",
                absl::StrJoin(shape, ","), "]); make them agree");
}

// Feeds a model from a dataset without named inputs.
absl::StatusOr<std::vector<FedInput>> FeedFeatures(
    const std::vector<ModelPort>& inputs, const DataFacts& facts) {
  if (inputs.size() == 1) {
    RETURN_IF_ERROR(CheckRowNumbers(inputs[0], facts.feature_shape));
    return std::vector<FedInput>{{.name = inputs[0].name}};
  }
  std::string names, flags;
  for (const ModelPort& input : inputs) {
    absl::StrAppend(&names, names.empty() ? "" : ", ", input.name);
    absl::StrAppend(&flags, " --input ", input.name, "=ARRAY");
  }
  return Refuse("the model has ", inputs.size(), " inputs (", names,
                "), but the dataset has one array of features; upload an NPZ "
                "archive with an array for each input (gpupool datasets upload",
                flags, ")");
}

// Feeds one input of the model from the dataset's input of that name.
absl::StatusOr<FedInput> FeedByName(const ModelPort& input,
                                    const DataFacts& facts) {
  const auto found = std::find_if(
      facts.inputs.begin(), facts.inputs.end(),
      [&](const ArrayFacts& array) { return array.name == input.name; });
  if (found == facts.inputs.end()) {
    return Refuse("the model's input '", input.name,
                  "' is not in the dataset, which has ",
                  QuotedNames(facts.inputs),
                  "; upload it with gpupool datasets upload --input ",
                  input.name, "=ARRAY");
  }
  RETURN_IF_ERROR(CheckRowNumbers(input, found->shape));
  if (input.dtype != DType::kFloat32 && IsFloating(FromProto(found->type))) {
    return Refuse("the model's input '", input.name, "' is ",
                  DTypeName(input.dtype), ", but the dataset's array is of ",
                  "floating-point numbers; store it as ",
                  DTypeName(input.dtype));
  }
  return FedInput{.name = input.name,
                  .column = static_cast<size_t>(found - facts.inputs.begin())};
}

// Checks that a column of floating-point numbers feeds an integer input without
// a change. Conversion keeps whole numbers up to these limits (column.h).
absl::Status CheckWholeNumbers(const Column& column, const std::string& name,
                               DType dtype) {
  const int64_t limit = dtype == DType::kInt32
                            ? std::numeric_limits<int32_t>::max()
                            : int64_t{1} << 53;
  const std::optional<PlacedNumber> found =
      FirstNotWhole(column, static_cast<double>(limit));
  if (!found.has_value()) return absl::OkStatus();
  const int digits = column.type == ElementType::kFloat64 ? 17 : 9;
  return Refuse(column.row_name(), " ", found->position / column.width,
                " of the dataset, counted from 0, has ",
                absl::StrFormat("%.*g", digits, found->number), " as number ",
                found->position % column.width, " for the model's input '",
                name, "', which is ", DTypeName(dtype),
                " and takes whole numbers from -", limit, " to ", limit,
                "; mend the row or make the input float32");
}

absl::Status CheckInt32(const Column& column, const std::string& name) {
  const bool larger = column.type == ElementType::kUint32 ||
                      column.type == ElementType::kInt64 ||
                      column.type == ElementType::kUint64;
  if (!larger) return absl::OkStatus();
  absl::Status checked;
  ConvertOnce(column, [&](uint64_t first, absl::Span<const int64_t> chunk) {
    for (size_t i = 0; i < chunk.size(); ++i) {
      if (std::in_range<int32_t>(chunk[i])) continue;
      checked =
          Refuse(column.row_name(), " ", (first + i) / column.width,
                 " of the dataset, counted from 0, has ", chunk[i],
                 " for the model's input '", name,
                 "', which is int32; mend the row or make the input int64");
      return false;
    }
    return true;
  });
  return checked;
}

// Checks that the transform fits the type of its input.
absl::Status CheckTransformedType(const v1::Transform& transform,
                                  const ModelPort& input) {
  if (!transform.has_random_mask()) {
    if (input.dtype == DType::kFloat32) return absl::OkStatus();
    return Refuse("the model's input '", input.name, "' is ",
                  DTypeName(input.dtype), "; transforms are for float32");
  }
  if (input.dtype == DType::kFloat32) {
    return Refuse("the model's input '", input.name,
                  "' is float32; tokens are hidden in int32 and int64 inputs");
  }
  const int64_t token = transform.random_mask().mask_token();
  if (input.dtype != DType::kInt32 || std::in_range<int32_t>(token)) {
    return absl::OkStatus();
  }
  return Refuse("mask_token is ", token, ", but the model's input '",
                input.name, "' is int32; lower it");
}

// Checks that the model has the inputs that data.transforms name, and that they
// take such numbers.
absl::Status CheckTransformedNames(const std::vector<ModelPort>& inputs,
                                   const v1::DataSpec& data) {
  for (int i = 0; i < data.transforms_size(); ++i) {
    const v1::Transform& transform = data.transforms(i);
    const std::string place = TransformPlace(i, transform);
    const std::string& name = transform.input();
    if (name.empty() && inputs.size() > 1) {
      return Refuse(place, ": the model has the inputs ", QuotedNames(inputs),
                    "; set input to one of them");
    }
    const auto found =
        std::find_if(inputs.begin(), inputs.end(), [&](const ModelPort& input) {
          return IsForInput(transform, input.name);
        });
    if (found == inputs.end()) {
      return Refuse(place, ": the model has no input '", name, "'; it has ",
                    QuotedNames(inputs));
    }
    RETURN_IF_ERROR(AtPlace(place, CheckTransformedType(transform, *found)));
  }
  return absl::OkStatus();
}

// Returns whether transforms of images are for this input.
bool HasTransforms(const v1::DataSpec& data, const std::string& input) {
  return std::any_of(data.transforms().begin(), data.transforms().end(),
                     [&](const v1::Transform& transform) {
                       return IsForInput(transform, input) &&
                              !transform.has_random_mask();
                     });
}

// Rows of one input in a dataset.
struct RowFacts {
  std::vector<int64_t>* shape = nullptr;  // null: the dataset lacks the input
  v1::DataType type = v1::DATA_TYPE_UNSPECIFIED;
};

RowFacts RowFactsOf(const ModelPort& input, DataFacts& facts) {
  if (facts.inputs.empty()) return {&facts.feature_shape, facts.feature_type};
  for (ArrayFacts& array : facts.inputs) {
    if (array.name == input.name) return {&array.shape, array.type};
  }
  return {};
}

// Returns the shape of rows as images; no channels if they are none.
ImageShape ImageShapeOf(const std::vector<int64_t>& row, const Shape& example) {
  if (row.size() == 3) return {row[0], row[1], row[2]};
  if (row.size() == 2) return {1, row[0], row[1]};
  const absl::StatusOr<uint64_t> count = CheckedElementCount(row);
  if (example.rank() != 3 || !count.ok() ||
      *count != static_cast<uint64_t>(example.elements())) {
    return {};
  }
  return {example[0], example[1], example[2]};
}

// The form of rows before transforms.
struct RowBefore {
  const std::vector<int64_t>& shape;
  v1::DataType type;
};

absl::StatusOr<RowTransforms> TransformsOf(const ModelPort& input,
                                           const v1::DataSpec& data,
                                           const RowBefore& row) {
  const ImageShape shape = ImageShapeOf(row.shape, input.example());
  if (shape.channels > 0) {
    return RowTransforms::Create(data, input.name, shape,
                                 !IsFloating(FromProto(row.type)));
  }
  return Refuse(
      "data.transforms are for images, but a row for the model's "
      "input '",
      input.name, "' has the shape [", absl::StrJoin(row.shape, ","),
      "]; store rows as [channels, height, width], or leave the "
      "transforms out");
}

// Checks that no transform moves pixels away from labels that belong to them.
absl::Status CheckUnmoved(const v1::DataSpec& data, const std::string& input,
                          const RowTransforms& transforms,
                          const DataFacts& facts) {
  const ImageShape& before = transforms.before();
  const auto for_pixels = [&](const std::vector<int64_t>& shape) {
    const size_t rank = shape.size();
    return rank >= 2 && shape[rank - 2] == before.height &&
           shape[rank - 1] == before.width;
  };
  bool any = for_pixels(facts.labels.shape);
  for (const ArrayFacts& target : facts.targets) {
    any = any || for_pixels(target.labels.shape);
  }
  for (int i = 0; any && i < data.transforms_size(); ++i) {
    const v1::Transform& transform = data.transforms(i);
    if (!IsForInput(transform, input) || !MovesPixels(transform)) continue;
    return Refuse(TransformPlace(i, transform),
                  " moves pixels, but the dataset has labels for each of ",
                  before.height, " x ", before.width,
                  " pixels, which stay; leave it out");
  }
  return absl::OkStatus();
}

// Checks that the statistics of data.scaling, which are those of the dataset's
// rows, hold for transformed rows.
absl::Status CheckScaled(const v1::DataSpec& data,
                         const RowTransforms& transforms) {
  if (data.scaling().rule_case() == v1::Scaling::RULE_NOT_SET) {
    return absl::OkStatus();
  }
  for (int i = 0; i < data.transforms_size(); ++i) {
    const v1::Transform& transform = data.transforms(i);
    if (!transform.has_to_float() && !transform.has_normalize()) continue;
    return Refuse(TransformPlace(i, transform),
                  " and data.scaling both scale the rows; leave one out");
  }
  if (transforms.before().numbers() == transforms.after().numbers()) {
    return absl::OkStatus();
  }
  return Refuse("data.transforms make rows of ", transforms.after().numbers(),
                " numbers of ", transforms.before().numbers(),
                ", for which data.scaling has no statistics; use to_float and "
                "normalize instead");
}

// Fills `to` with the rows, one by one.
void FillTransformed(const FedBatch& batch, const FedInput& fed,
                     absl::Span<float> to) {
  const Column& column = FedColumn(batch.table, fed);
  Image image;
  for (const uint32_t row : batch.rows) {
    image.shape = fed.transforms.before();
    image.pixels.resize(static_cast<size_t>(image.shape.numbers()));
    Gather(column, {row}, absl::MakeSpan(image.pixels));
    if (batch.epoch.has_value()) {
      fed.transforms.Train({batch.epoch->seed, batch.epoch->epoch, row}, image);
    } else {
      fed.transforms.Evaluate(image);
    }
    GPUPOOL_CHECK(image.pixels.size() <= to.size());
    std::copy(image.pixels.begin(), image.pixels.end(), to.begin());
    to.remove_prefix(image.pixels.size());
  }
  std::fill(to.begin(), to.end(), 0.0f);
}

// Returns the rows that the rows of the batch are mixed with.
std::vector<uint32_t> PartnersOf(const FedBatch& batch) {
  GPUPOOL_CHECK(batch.mix->partners.size() == batch.rows.size());
  std::vector<uint32_t> rows;
  rows.reserve(batch.rows.size());
  for (const uint32_t place : batch.mix->partners) {
    rows.push_back(batch.rows[place]);
  }
  return rows;
}

// Mixes the rows of an input. A shorter batch may be in the memory of a whole
// one, so its rows are counted and not taken from the memory's size.
void MixInput(const FedBatch& batch, const FedInput& fed,
              absl::Span<float> numbers) {
  const uint64_t width =
      fed.transforms.empty()
          ? FedColumn(batch.table, fed).width
          : static_cast<uint64_t>(fed.transforms.after().numbers());
  const uint64_t count = batch.rows.size() * width;
  GPUPOOL_CHECK(count <= numbers.size());
  MixRows(*batch.mix, numbers.first(count));
}

void FillFloats(const FedBatch& batch, const FedInput& fed,
                absl::Span<const uint32_t> rows, absl::Span<float> to) {
  if (fed.transforms.empty()) {
    Gather(FedColumn(batch.table, fed), rows, to);
  } else {
    FillTransformed(batch, fed, to);
  }
  if (batch.mix != nullptr && !fed.target) MixInput(batch, fed, to);
}

// Hides tokens in the rows of an input. In the rows of a target, sets the
// labels of the other tokens to the ignored one.
template <typename T>
void MaskRows(const FedBatch& batch, const FedInput& fed, absl::Span<T> to) {
  const FedMask& mask = *fed.mask;
  const Column& column = batch.table.inputs[mask.tokens];
  std::vector<int64_t> tokens(column.width);
  for (const uint32_t row : batch.rows) {
    const RowKey key = {
        mask.seed,
        batch.epoch.has_value() ? batch.epoch->epoch : kEvaluatedEpoch, row};
    const absl::Span<T> own = to.first(column.width);
    to.remove_prefix(column.width);
    if (!fed.target) {
      mask.mask.Hide(key, own);
      continue;
    }
    Gather(column, {row}, absl::MakeSpan(tokens));
    // Labels of classes are int64.
    if constexpr (std::is_same_v<T, int64_t>) {
      mask.mask.Ignore(key, tokens, mask.ignored, own);
    }
  }
}

template <typename T>
void FillIntegers(const FedBatch& batch, const FedInput& fed,
                  absl::Span<const uint32_t> rows, absl::Span<T> to) {
  Gather(FedColumn(batch.table, fed), rows, to);
  if (fed.mask.has_value()) MaskRows(batch, fed, to);
}

void FillLambda(const BatchMix& mix, InputBytes input) {
  const absl::Span<std::byte> bytes = input(kMixLambdaName);
  GPUPOOL_CHECK(bytes.size() == sizeof(mix.lambda));
  std::memcpy(bytes.data(), &mix.lambda, sizeof(mix.lambda));
}

}  // namespace

absl::StatusOr<std::vector<FedInput>> FeedModel(
    const std::vector<ModelPort>& inputs, const DataFacts& facts) {
  if (inputs.empty()) {
    return Refuse("the model has no input; training needs one for its rows");
  }
  for (const ModelPort& input : inputs) RETURN_IF_ERROR(CheckPort(input));
  if (!facts.assumed && facts.inputs.empty()) {
    return FeedFeatures(inputs, facts);
  }
  std::vector<FedInput> fed;
  for (const ModelPort& input : inputs) {
    if (facts.assumed) {
      fed.push_back({.name = input.name, .column = fed.size()});
    } else {
      ASSIGN_OR_RETURN(fed.emplace_back(), FeedByName(input, facts));
    }
  }
  return fed;
}

absl::StatusOr<std::vector<FedInput>> FeedTransformed(
    const std::vector<ModelPort>& inputs, const v1::DataSpec& data,
    const DataFacts& facts) {
  RETURN_IF_ERROR(CheckTransformedNames(inputs, data));
  // Without the data nothing is known of its rows.
  if (data.transforms().empty() || facts.assumed) {
    return FeedModel(inputs, facts);
  }
  DataFacts after = facts;
  absl::flat_hash_map<std::string, RowTransforms> transforms;
  for (const ModelPort& input : inputs) {
    RowFacts row = RowFactsOf(input, after);
    if (row.shape == nullptr || !HasTransforms(data, input.name)) continue;
    ASSIGN_OR_RETURN(RowTransforms own,
                     TransformsOf(input, data, {*row.shape, row.type}));
    RETURN_IF_ERROR(CheckUnmoved(data, input.name, own, facts));
    RETURN_IF_ERROR(CheckScaled(data, own));
    const ImageShape& shape = own.after();
    *row.shape = {shape.channels, shape.height, shape.width};
    transforms[input.name] = std::move(own);
  }
  absl::StatusOr<std::vector<FedInput>> fed = FeedModel(inputs, after);
  if (!fed.ok()) return AtPlace("after data.transforms", fed.status());
  for (FedInput& input : *fed) input.transforms = transforms[input.name];
  return fed;
}

absl::StatusOr<size_t> FindTarget(const std::string& field,
                                  const std::string& target, DataFacts& facts) {
  if (facts.assumed) return size_t{0};
  if (facts.targets.empty()) {
    if (target.empty()) return size_t{0};
    return Refuse(field, ": the dataset has no target '", target,
                  "', only labels without a name; leave target out, or upload "
                  "an NPZ archive with --target ",
                  target, "=ARRAY");
  }
  const std::string names = QuotedNames(facts.targets);
  if (target.empty() && facts.targets.size() > 1) {
    return Refuse(field, ": the dataset has the targets ", names,
                  "; list the losses in training.losses, each with its target");
  }
  const auto found = std::find_if(
      facts.targets.begin(), facts.targets.end(), [&](const ArrayFacts& array) {
        return target.empty() || array.name == target;
      });
  if (found == facts.targets.end()) {
    return Refuse(field, ": the dataset has no target '", target, "'; it has ",
                  names);
  }
  facts.labels = found->labels;
  return static_cast<size_t>(found - facts.targets.begin());
}

const Column& FedColumn(const Table& table, const FedInput& fed) {
  return (fed.target ? table.targets : table.inputs)[fed.column];
}

absl::Status CheckFedNumbers(const Table& table, absl::Span<const FedInput> fed,
                             const Graph& graph) {
  // Random numbers are from 0 to 1, whatever the dataset has.
  if (table.random) return absl::OkStatus();
  for (const FedInput& input : fed) {
    const Value* value = graph.FindValue(input.name);
    if (value == nullptr || IsFloating(value->dtype)) continue;
    const Column& column = FedColumn(table, input);
    // Labels have checks of their own (label_check.h).
    if (!input.target && IsFloating(column.type)) {
      RETURN_IF_ERROR(CheckWholeNumbers(column, input.name, value->dtype));
    }
    if (value->dtype == DType::kInt32) {
      RETURN_IF_ERROR(CheckInt32(column, input.name));
    }
  }
  return absl::OkStatus();
}

absl::Status FillInputs(const FedBatch& batch, const Graph& graph,
                        InputBytes input) {
  RETURN_IF_ERROR(batch.table.CheckWhole());
  std::vector<uint32_t> partners;
  if (batch.mix != nullptr) {
    partners = PartnersOf(batch);
    FillLambda(*batch.mix, input);
  }
  for (const FedInput& fed : batch.fed) {
    const absl::Span<std::byte> bytes = input(fed.name);
    if (bytes.empty()) continue;
    const auto rows = fed.mixed ? absl::MakeConstSpan(partners) : batch.rows;
    switch (graph.FindValue(fed.name)->dtype) {
      case DType::kInt32:
        FillIntegers(batch, fed, rows, CellsAs<int32_t>(bytes));
        break;
      case DType::kInt64:
        FillIntegers(batch, fed, rows, CellsAs<int64_t>(bytes));
        break;
      default:
        FillFloats(batch, fed, rows, CellsAs<float>(bytes));
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
